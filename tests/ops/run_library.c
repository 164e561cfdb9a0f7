/* Runs the `main` of a library that `tvtf compile` wrote: tensors come on standard input and go to standard output.
 *
 * It takes TVM's runtime and TVM-FFI's C interface, neither Python nor C++. A stream of tensors is their number (int32), and of
 * each its DLDataType, rank (int32), dims (int64) and items.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

static const size_t ALIGNMENT = 64;

static void stop(const char* what) {
  fprintf(stderr, "run_library: %s\n", what);
  exit(2);
}

static void check(int failed) {
  TVMFFIObjectHandle raised = NULL;
  if (!failed) return;
  TVMFFIErrorMoveFromRaised(&raised);
  TVMFFIErrorCell* error = (TVMFFIErrorCell*)((char*)raised + sizeof(TVMFFIObject));
  fprintf(stderr, "%.*s: %.*s\n", (int)error->kind.size, error->kind.data, (int)error->message.size, error->message.data);
  exit(1);
}

static TVMFFIAny of_int(int64_t value) {
  TVMFFIAny any = {0};
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}

static TVMFFIAny of_text(const char* value) {
  TVMFFIAny any = {0};
  any.type_index = kTVMFFIRawStr;
  any.v_c_str = value;
  return any;
}

static TVMFFIAny of_object(TVMFFIObjectHandle object, int32_t kind) {
  TVMFFIAny any = {0};
  any.type_index = kind;
  any.v_obj = object;
  return any;
}

static TVMFFIAny call(TVMFFIObjectHandle function, TVMFFIAny* arguments, int32_t count) {
  TVMFFIAny result = {0};
  check(TVMFFIFunctionCall(function, arguments, count, &result));
  return result;
}

static TVMFFIObjectHandle global(const char* name) {
  TVMFFIByteArray key = {name, strlen(name)};
  TVMFFIObjectHandle found = NULL;
  check(TVMFFIFunctionGetGlobal(&key, &found));
  if (!found) stop(name);
  return found;
}

static TVMFFIAny call_member(TVMFFIAny module, const char* name, TVMFFIAny* arguments, int32_t count) {
  TVMFFIAny query[] = {module, of_text(name), of_int(0)};
  TVMFFIAny member = call(global("ffi.ModuleGetFunction"), query, 3);
  if (member.type_index != kTVMFFIFunction) stop(name);
  return call(member.v_obj, arguments, count);
}

static void take(void* to, size_t size) {
  if (size && fread(to, size, 1, stdin) != 1) stop("standard input ended early");
}

static size_t bytes_of(const DLTensor* tensor) {
  size_t items = 1;
  for (int32_t i = 0; i < tensor->ndim; ++i) items *= tensor->shape[i];
  return items * ((tensor->dtype.bits * tensor->dtype.lanes + 7) / 8);
}

static TVMFFIAny read_tensor(void) {
  DLManagedTensor* managed = calloc(1, sizeof *managed);
  DLTensor* tensor = &managed->dl_tensor;
  TVMFFIObjectHandle made = NULL;
  tensor->device.device_type = kDLCPU;
  take(&tensor->dtype, sizeof tensor->dtype);
  take(&tensor->ndim, sizeof tensor->ndim);
  tensor->shape = calloc(tensor->ndim + 1, sizeof *tensor->shape);
  take(tensor->shape, tensor->ndim * sizeof *tensor->shape);
  size_t size = bytes_of(tensor);
  tensor->data = aligned_alloc(ALIGNMENT, (size / ALIGNMENT + 1) * ALIGNMENT);
  take(tensor->data, size);
  check(TVMFFITensorFromDLPack(managed, 0, 0, &made));
  return of_object(made, kTVMFFITensor);
}

static void write_tensor(TVMFFIAny value) {
  if (value.type_index != kTVMFFITensor) stop("main gives something else than tensors");
  const DLTensor* tensor = (const DLTensor*)((char*)value.v_obj + sizeof(TVMFFIObject));
  fwrite(&tensor->dtype, sizeof tensor->dtype, 1, stdout);
  fwrite(&tensor->ndim, sizeof tensor->ndim, 1, stdout);
  fwrite(tensor->shape, sizeof *tensor->shape, tensor->ndim, stdout);
  fwrite((const char*)tensor->data + tensor->byte_offset, 1, bytes_of(tensor), stdout);
}

static void write_results(TVMFFIAny results) {
  int32_t count = 1;
  if (results.type_index == kTVMFFIArray) count = (int32_t)call(global("ffi.ArraySize"), &results, 1).v_int64;
  fwrite(&count, sizeof count, 1, stdout);
  if (results.type_index != kTVMFFIArray) {
    write_tensor(results);
    return;
  }
  for (int32_t i = 0; i < count; ++i) {
    TVMFFIAny query[] = {results, of_int(i)};
    write_tensor(call(global("ffi.ArrayGetItem"), query, 2));
  }
}

int main(int count, char** arguments) {
  if (count != 2) stop("usage: run_library LIBRARY < INPUTS > OUTPUTS");
  TVMFFIAny path = of_text(arguments[1]);
  TVMFFIAny library = call(global("ffi.ModuleLoadFromFile"), &path, 1);
  TVMFFIAny machine = call_member(library, "vm_load_executable", NULL, 0);
  TVMFFIAny devices[] = {of_int(kDLCPU), of_int(0), of_int(2)};
  call_member(machine, "vm_initialization", devices, 3);
  int32_t inputs = 0;
  take(&inputs, sizeof inputs);
  TVMFFIAny* given = calloc(inputs + 1, sizeof *given);
  for (int32_t i = 0; i < inputs; ++i) given[i] = read_tensor();
  write_results(call_member(machine, "main", given, inputs));
  return 0;
}
