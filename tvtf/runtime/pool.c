/* Threads that share the tasks of parallel kernels: what stands behind TVM's TVMBackendParallelLaunch (see pool.py).
 *
 * A job lies in one of a few slots. Its tasks are dealt in one range to each thread; a thread takes its own first, then what
 * others have not begun, so a thread that the system keeps waiting delays nobody. Whoever waits looks for a moment, then
 * sleeps; nobody yields, which costs a whole time slice beside busy neighbours.
 * Source of the waiting protocol: U. Drepper, Futexes Are Tricky (2011).
 *
 * No compiler may be at hand where tvtf runs: `make pool` translates this file to pool.ll, which TVM's LLVM compiles.
 */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SLOTS = 8,                /* jobs at once; further callers run theirs by themselves */
    CACHE_LINE = 64,          /* bytes that two threads can't write at once without waiting for each other */
    MOST_TASKS = UINT16_MAX,  /* what a range has bits for */
    LOOKS = 16,               /* between two looks at the clock, which takes as long as some */
};

typedef struct {
    void *sync_handle;
    int tasks;
} Environment; /* TVM's TVMParallelGroupEnv */

typedef int (*Kernel)(int task, Environment *environment, void *data);

typedef struct {
    _Alignas(CACHE_LINE) atomic_int taken;
    uint32_t generation; /* of the job: its ranges can't be taken for those of the job before */
    _Atomic(Kernel) kernel;
    _Atomic(void *) data;
    Environment environment;
    _Atomic(void *) error;
    _Alignas(CACHE_LINE) atomic_int pending; /* tasks that are not done */
    atomic_int awaited;                      /* whether the caller sleeps until none is */
} Slot;

/* The tasks that a thread was dealt and that nobody has begun, in one word: from the lowest bits the next task (16 bits),
 * the end (16) and the generation (32). Taking a task is one compare-and-swap, which fails for a job that has ended. */
typedef struct {
    _Alignas(CACHE_LINE) _Atomic uint64_t word;
} Range;

/* TVM keeps an error with the thread that met it. */
void TVMFFIErrorMoveFromRaised(void **error);
void TVMFFIErrorSetRaised(void *error);
int TVMFFIObjectDecRef(void *object);

static int threads = 1; /* that a kernel runs on, its caller among them */
static int64_t spin;    /* nanoseconds to look at a word before sleeping */
static long futex;      /* the number of this system call, another on each processor */

static atomic_int started;
static Slot slots[SLOTS];
static Range *ranges; /* of each slot, one for each thread */
static _Alignas(CACHE_LINE) atomic_int epoch; /* counts jobs: threads without one wait for another value */
static _Alignas(CACHE_LINE) atomic_int sleepers;

/* Called once, before any job. */
void tvtf_pool_configure(int thread_count, int64_t spin_nanoseconds, long futex_number) {
    threads = thread_count;
    spin = spin_nanoseconds;
    futex = futex_number;
    ranges = calloc((size_t)SLOTS * thread_count, sizeof(Range));
}

/* In a forked child: the threads are gone, and so are the jobs of other callers. */
void tvtf_pool_forked(void) {
    memset(ranges, 0, (size_t)SLOTS * threads * sizeof(Range));
    memset(slots, 0, sizeof slots);
    epoch = sleepers = started = 0;
}

/* -- waiting */

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Looks at a word for a moment: whether it is another than `known`. */
static bool watch(atomic_int *word, int known) {
    int64_t end = now() + spin;
    do {
        for (int look = 0; look < LOOKS; look++) {
            if (atomic_load_explicit(word, memory_order_acquire) != known) return true;
            __asm__ volatile("SPIN_PAUSE"); /* pool.py puts the processor's instruction here */
        }
    } while (now() < end);
    return false;
}

/* Until somebody wakes it, unless the word is another already. */
static void sleep_on(atomic_int *word, int known) {
    syscall(futex, word, FUTEX_WAIT_PRIVATE, known, NULL, NULL, 0);
}

static void wake(atomic_int *word, int count) {
    syscall(futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* -- tasks */

static Range *range_of(Slot *slot, int owner) {
    return &ranges[(slot - slots) * threads + owner];
}

/* Takes the error out of this thread's hands, so that the caller's thread can raise it; the last one counts. */
static void keep_error(Slot *slot) {
    void *error = NULL;
    TVMFFIErrorMoveFromRaised(&error);
    void *known = atomic_exchange_explicit(&slot->error, error, memory_order_acq_rel);
    if (known) TVMFFIObjectDecRef(known);
}

/* One task is done; the last one wakes the caller. */
static void finish(Slot *slot) {
    if (atomic_fetch_sub(&slot->pending, 1) == 1 && slot->awaited) wake(&slot->pending, 1);
}

/* Runs tasks of a slot, those of `self` first, until nobody has one left to begin. */
static void work(Slot *slot, int self) {
    for (int visited = 0; visited < threads; visited++) {
        Range *range = range_of(slot, (self + visited) % threads);
        for (;;) {
            uint64_t word = atomic_load_explicit(&range->word, memory_order_acquire);
            uint16_t next = (uint16_t)word, end = (uint16_t)(word >> 16);
            if (next >= end) break;
            /* Read before the task is taken: until then the slot may get another job, and then taking it fails. */
            Kernel kernel = atomic_load_explicit(&slot->kernel, memory_order_relaxed);
            void *data = atomic_load_explicit(&slot->data, memory_order_relaxed);
            if (!atomic_compare_exchange_strong_explicit(
                    &range->word, &word, word + 1, memory_order_acq_rel, memory_order_relaxed))
                continue;
            if (kernel(next, &slot->environment, data)) keep_error(slot);
            finish(slot);
        }
    }
}

static void *thread(void *self) {
    for (;;) {
        int seen = atomic_load_explicit(&epoch, memory_order_acquire);
        for (Slot *slot = slots; slot < slots + SLOTS; slot++) work(slot, (int)(intptr_t)self);
        if (watch(&epoch, seen)) continue;
        sleepers++;
        sleep_on(&epoch, seen);
        sleepers--;
    }
}

/* Starts the threads, once; they take no signals, which are for the program's own. Of those that can't be had others take
 * the tasks. */
static void start(void) {
    int none = 0;
    if (!atomic_compare_exchange_strong_explicit(&started, &none, 1, memory_order_acq_rel, memory_order_relaxed)) return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (intptr_t number = 1; number < threads; number++) {
        pthread_t handle;
        if (!pthread_create(&handle, NULL, thread, (void *)number)) pthread_detach(handle);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* -- jobs */

/* Writes a job into a slot, deals its tasks, and wakes who sleeps. */
static void publish(Slot *slot, Kernel kernel, void *data, uint32_t tasks) {
    uint64_t generation = ++slot->generation;
    atomic_store_explicit(&slot->kernel, kernel, memory_order_relaxed);
    atomic_store_explicit(&slot->data, data, memory_order_relaxed);
    slot->environment.tasks = (int)tasks;
    atomic_store_explicit(&slot->pending, (int)tasks, memory_order_relaxed);
    for (uint32_t owner = 0, first = 0; owner < (uint32_t)threads; owner++) {
        uint32_t end = tasks * (owner + 1) / (uint32_t)threads;
        atomic_store_explicit(
            &range_of(slot, (int)owner)->word, generation << 32 | end << 16 | first, memory_order_release);
        first = end;
    }
    epoch++;
    if (sleepers) wake(&epoch, (int)tasks - 1);
}

/* The caller waits for the tasks that others have begun. */
static void await(Slot *slot) {
    int pending;
    while ((pending = atomic_load_explicit(&slot->pending, memory_order_acquire))) {
        if (watch(&slot->pending, pending)) continue;
        slot->awaited = 1;
        sleep_on(&slot->pending, pending);
        slot->awaited = 0;
    }
}

static int run_alone(Kernel kernel, void *data, int tasks) {
    Environment environment = {NULL, tasks};
    int status = 0;
    for (int task = 0; task < tasks && !status; task++) status = kernel(task, &environment, data);
    return status;
}

static int run_shared(Slot *slot, Kernel kernel, void *data, int tasks) {
    start();
    publish(slot, kernel, data, (uint32_t)tasks);
    work(slot, 0);
    await(slot);
    void *error = atomic_exchange_explicit(&slot->error, NULL, memory_order_relaxed);
    atomic_store_explicit(&slot->taken, 0, memory_order_release);
    if (!error) return 0;
    TVMFFIErrorSetRaised(error);
    TVMFFIObjectDecRef(error);
    return -1;
}

/* TVMBackendParallelLaunch: 0, or -1 with TVM's error set. */
int tvtf_pool_launch(Kernel kernel, void *data, int asked) {
    int tasks = asked ? asked : threads;
    if (tasks > 1 && tasks <= MOST_TASKS && threads > 1)
        for (Slot *slot = slots; slot < slots + SLOTS; slot++) {
            int none = 0;
            if (atomic_compare_exchange_strong_explicit(
                    &slot->taken, &none, 1, memory_order_acquire, memory_order_relaxed))
                return run_shared(slot, kernel, data, tasks);
        }
    return run_alone(kernel, data, asked ? asked : 1);
}
