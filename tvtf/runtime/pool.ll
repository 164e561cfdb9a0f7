; Threads that share the tasks of parallel kernels: what stands behind TVM's TVMBackendParallelLaunch (see pool.py).
;
; A job lies in one of a few slots. Its tasks are dealt in one range to each thread; a thread takes its own first, then
; what others have not begun, so a thread that the system keeps waiting delays nobody. A range is one word, generation in
; the upper half, then end, then next: taking a task is one compare-and-swap, which fails for a job that has ended.
; Whoever waits looks for a moment, then sleeps; nobody yields, which costs a whole time slice beside busy neighbours.
; Source of the waiting protocol: U. Drepper, Futexes Are Tricky (2011).

%Environment = type { ptr, i32 }                                        ; TVMParallelGroupEnv: sync_handle, num_task
%Slot = type { i32, i32, ptr, ptr, %Environment, ptr, [16 x i8], i32, i32, [56 x i8] }
; a slot: taken, generation, kernel, data, environment, error; pending, waited for
%Range = type { i64, [56 x i8] }

@threads = internal global i32 1
@started = internal global i32 0
@slots = internal global [8 x %Slot] zeroinitializer, align 64
@ranges = internal global ptr null
@epoch = internal global i32 0, align 64
@sleepers = internal global i32 0, align 64

declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
declare ptr @calloc(i64, i64)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare void @TVMFFIErrorMoveFromRaised(ptr)
declare void @TVMFFIErrorSetRaised(ptr)
declare i32 @TVMFFIObjectDecRef(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; How many threads a kernel runs on, the caller among them; called once.
define void @tvtf_pool_configure(i32 %threads) {
  %count = zext i32 %threads to i64
  %ranges_of_all = mul i64 %count, 8
  %ranges = call ptr @calloc(i64 %ranges_of_all, i64 64)
  store ptr %ranges, ptr @ranges
  store i32 %threads, ptr @threads
  ret void
}

; In a forked child: the threads are gone, and so are the jobs of other callers.
define void @tvtf_pool_forked() {
  %threads = load i32, ptr @threads
  %count = zext i32 %threads to i64
  %bytes = mul i64 %count, 512
  %ranges = load ptr, ptr @ranges
  call void @llvm.memset.p0.i64(ptr %ranges, i8 0, i64 %bytes, i1 false)
  call void @llvm.memset.p0.i64(ptr @slots, i8 0, i64 1024, i1 false)
  store i32 0, ptr @epoch
  store i32 0, ptr @sleepers
  store i32 0, ptr @started
  ret void
}

; TVMBackendParallelLaunch: 0, or -1 with TVM's error set.
define i32 @tvtf_pool_launch(ptr %kernel, ptr %data, i32 %asked) {
  %threads = load i32, ptr @threads
  %by_default = icmp eq i32 %asked, 0
  %tasks = select i1 %by_default, i32 %threads, i32 %asked
  %one = icmp eq i32 %tasks, 1
  %alone = icmp eq i32 %threads, 1
  %many = icmp ugt i32 %tasks, 65535
  %some = or i1 %one, %alone
  %serial = or i1 %some, %many
  br i1 %serial, label %here, label %search

search:
  %index = phi i64 [ 0, %0 ], [ %following, %next ]
  %slot = getelementptr [8 x %Slot], ptr @slots, i64 0, i64 %index
  %swap = cmpxchg ptr %slot, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %swap, 1
  br i1 %free, label %found, label %next

next:
  %following = add i64 %index, 1
  %more = icmp ult i64 %following, 8
  br i1 %more, label %search, label %here

here:
  %status = call i32 @serial(ptr %kernel, ptr %data, i32 %asked)
  ret i32 %status

found:
  call void @start()
  call void @publish(ptr %slot, i64 %index, ptr %kernel, ptr %data, i32 %tasks)
  call void @work(ptr %slot, i64 %index, i32 0)
  call void @await(ptr %slot)
  %error_at = getelementptr %Slot, ptr %slot, i32 0, i32 5
  %error = load ptr, ptr %error_at
  store ptr null, ptr %error_at
  store atomic i32 0, ptr %slot release, align 4
  %well = icmp eq ptr %error, null
  br i1 %well, label %done, label %failed

done:
  ret i32 0

failed:
  call void @TVMFFIErrorSetRaised(ptr %error)
  %_ = call i32 @TVMFFIObjectDecRef(ptr %error)
  ret i32 -1
}

; All tasks in the calling thread.
define internal i32 @serial(ptr %kernel, ptr %data, i32 %asked) {
  %environment = alloca %Environment
  %by_default = icmp eq i32 %asked, 0
  %tasks = select i1 %by_default, i32 1, i32 %asked
  store %Environment zeroinitializer, ptr %environment
  %tasks_at = getelementptr %Environment, ptr %environment, i32 0, i32 1
  store i32 %tasks, ptr %tasks_at
  br label %loop

loop:
  %task = phi i32 [ 0, %0 ], [ %following, %well ]
  %status = call i32 %kernel(i32 %task, ptr %environment, ptr %data)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %end, label %well

well:
  %following = add i32 %task, 1
  %more = icmp ult i32 %following, %tasks
  br i1 %more, label %loop, label %end

end:
  ret i32 %status
}

; Writes a job into a slot, deals its tasks, and wakes who sleeps.
define internal void @publish(ptr %slot, i64 %index, ptr %kernel, ptr %data, i32 %tasks) {
  %generation_at = getelementptr %Slot, ptr %slot, i32 0, i32 1
  %last = load i32, ptr %generation_at
  %generation = add i32 %last, 1
  store i32 %generation, ptr %generation_at
  %kernel_at = getelementptr %Slot, ptr %slot, i32 0, i32 2
  store atomic ptr %kernel, ptr %kernel_at monotonic, align 8
  %data_at = getelementptr %Slot, ptr %slot, i32 0, i32 3
  store atomic ptr %data, ptr %data_at monotonic, align 8
  %tasks_at = getelementptr %Slot, ptr %slot, i32 0, i32 4, i32 1
  store i32 %tasks, ptr %tasks_at
  %pending_at = getelementptr %Slot, ptr %slot, i32 0, i32 7
  store atomic i32 %tasks, ptr %pending_at monotonic, align 4
  %wide_generation = zext i32 %generation to i64
  %mark = shl i64 %wide_generation, 32
  %threads = load i32, ptr @threads
  br label %deal

deal:
  %owner = phi i32 [ 0, %0 ], [ %next_owner, %deal ]
  %first = phi i32 [ 0, %0 ], [ %end, %deal ]
  %next_owner = add i32 %owner, 1
  %product = mul i32 %tasks, %next_owner
  %end = udiv i32 %product, %threads
  %wide_end = zext i32 %end to i64
  %shifted_end = shl i64 %wide_end, 16
  %wide_first = zext i32 %first to i64
  %bounds = or i64 %shifted_end, %wide_first
  %word = or i64 %mark, %bounds
  %range = call ptr @range(i64 %index, i32 %owner)
  store atomic i64 %word, ptr %range release, align 8
  %dealt = icmp eq i32 %next_owner, %threads
  br i1 %dealt, label %tell, label %deal

tell:
  %_ = atomicrmw add ptr @epoch, i32 1 seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %nobody = icmp eq i32 %asleep, 0
  br i1 %nobody, label %end_of_publish, label %wake

wake:
  %others = sub i32 %tasks, 1
  call void @wake(ptr @epoch, i32 %others)
  ret void

end_of_publish:
  ret void
}

define internal ptr @range(i64 %index, i32 %owner) {
  %threads = load i32, ptr @threads
  %wide_threads = zext i32 %threads to i64
  %row = mul i64 %index, %wide_threads
  %wide_owner = zext i32 %owner to i64
  %at = add i64 %row, %wide_owner
  %ranges = load ptr, ptr @ranges
  %range = getelementptr %Range, ptr %ranges, i64 %at
  ret ptr %range
}

; Runs tasks of a slot, those of `self` first, until nobody has one left to begin.
define internal void @work(ptr %slot, i64 %index, i32 %self) {
  %threads = load i32, ptr @threads
  br label %visit

visit:
  %visited = phi i32 [ 0, %0 ], [ %count, %leave ]
  %sum = add i32 %self, %visited
  %owner = urem i32 %sum, %threads
  %range = call ptr @range(i64 %index, i32 %owner)
  br label %look

look:
  %word = load atomic i64, ptr %range acquire, align 8
  %next = and i64 %word, 65535
  %upper = lshr i64 %word, 16
  %end = and i64 %upper, 65535
  %left = icmp ult i64 %next, %end
  br i1 %left, label %take, label %leave

take:
  %kernel_at = getelementptr %Slot, ptr %slot, i32 0, i32 2
  %kernel = load atomic ptr, ptr %kernel_at monotonic, align 8
  %data_at = getelementptr %Slot, ptr %slot, i32 0, i32 3
  %data = load atomic ptr, ptr %data_at monotonic, align 8
  %taken = add i64 %word, 1
  %swap = cmpxchg ptr %range, i64 %word, i64 %taken acq_rel monotonic
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %run, label %look

run:
  %task = trunc i64 %next to i32
  %environment = getelementptr %Slot, ptr %slot, i32 0, i32 4
  %status = call i32 %kernel(i32 %task, ptr %environment, ptr %data)
  %well = icmp eq i32 %status, 0
  br i1 %well, label %finish, label %fail

fail:
  call void @keep_error(ptr %slot)
  br label %finish

finish:
  call void @finish(ptr %slot)
  br label %look

leave:
  %count = add i32 %visited, 1
  %more = icmp ult i32 %count, %threads
  br i1 %more, label %visit, label %end_of_work

end_of_work:
  ret void
}

; Takes the error out of this thread's hands, so that the caller's thread can raise it.
define internal void @keep_error(ptr %slot) {
  %place = alloca ptr
  store ptr null, ptr %place
  call void @TVMFFIErrorMoveFromRaised(ptr %place)
  %error = load ptr, ptr %place
  %error_at = getelementptr %Slot, ptr %slot, i32 0, i32 5
  %known = atomicrmw xchg ptr %error_at, ptr %error acq_rel
  %first = icmp eq ptr %known, null
  br i1 %first, label %end, label %drop

drop:
  %_ = call i32 @TVMFFIObjectDecRef(ptr %known)
  br label %end

end:
  ret void
}

; One task is done; the last one wakes the caller.
define internal void @finish(ptr %slot) {
  %pending_at = getelementptr %Slot, ptr %slot, i32 0, i32 7
  %pending = atomicrmw sub ptr %pending_at, i32 1 seq_cst
  %last = icmp eq i32 %pending, 1
  br i1 %last, label %tell, label %end

tell:
  %waited_at = getelementptr %Slot, ptr %slot, i32 0, i32 8
  %waited = load atomic i32, ptr %waited_at seq_cst, align 4
  %needed = icmp ne i32 %waited, 0
  br i1 %needed, label %wake, label %end

wake:
  call void @wake(ptr %pending_at, i32 1)
  br label %end

end:
  ret void
}

; The caller waits for the tasks that others have begun.
define internal void @await(ptr %slot) {
  %pending_at = getelementptr %Slot, ptr %slot, i32 0, i32 7
  %waited_at = getelementptr %Slot, ptr %slot, i32 0, i32 8
  br label %look

look:
  %pending = load atomic i32, ptr %pending_at acquire, align 4
  %done = icmp eq i32 %pending, 0
  br i1 %done, label %end, label %watch

watch:
  %changed = call i1 @watch(ptr %pending_at, i32 %pending)
  br i1 %changed, label %look, label %sleep

sleep:
  store atomic i32 1, ptr %waited_at seq_cst, align 4
  call void @sleep(ptr %pending_at, i32 %pending)
  store atomic i32 0, ptr %waited_at seq_cst, align 4
  br label %look

end:
  ret void
}

; A thread of the pool.
define internal ptr @thread(ptr %argument) {
  %wide_self = ptrtoint ptr %argument to i64
  %self = trunc i64 %wide_self to i32
  br label %look

look:
  %seen = load atomic i32, ptr @epoch acquire, align 4
  br label %visit

visit:
  %index = phi i64 [ 0, %look ], [ %following, %visit ]
  %slot = getelementptr [8 x %Slot], ptr @slots, i64 0, i64 %index
  call void @work(ptr %slot, i64 %index, i32 %self)
  %following = add i64 %index, 1
  %more = icmp ult i64 %following, 8
  br i1 %more, label %visit, label %wait

wait:
  %changed = call i1 @watch(ptr @epoch, i32 %seen)
  br i1 %changed, label %look, label %sleep

sleep:
  %_ = atomicrmw add ptr @sleepers, i32 1 seq_cst
  call void @sleep(ptr @epoch, i32 %seen)
  %__ = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %look
}

; Starts the threads, once; they take no signals, which are for the program's own.
define internal void @start() {
  %swap = cmpxchg ptr @started, i32 0, i32 1 acq_rel monotonic
  %first = extractvalue { i32, i1 } %swap, 1
  br i1 %first, label %begin, label %end

begin:
  %all = alloca [128 x i8], align 16
  %before = alloca [128 x i8], align 16
  %handle = alloca i64
  %_ = call i32 @sigfillset(ptr %all)
  %__ = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %before)
  %threads = load i32, ptr @threads
  br label %create

create:
  %number = phi i32 [ 1, %begin ], [ %following, %created ], [ %following, %not_created ]
  %wide_number = zext i32 %number to i64
  %argument = inttoptr i64 %wide_number to ptr
  %status = call i32 @pthread_create(ptr %handle, ptr null, ptr @thread, ptr %argument)
  %following = add i32 %number, 1
  %more = icmp ult i32 %following, %threads
  %is_there = icmp eq i32 %status, 0
  br i1 %is_there, label %created, label %not_created

created:
  %thread = load i64, ptr %handle
  %___ = call i32 @pthread_detach(i64 %thread)
  br i1 %more, label %create, label %restore

not_created:
  br i1 %more, label %create, label %restore

restore:
  %____ = call i32 @pthread_sigmask(i32 2, ptr %before, ptr null)
  br label %end

end:
  ret void
}

; Looks at a word for $SPIN nanoseconds: whether it is another than `known`.
define internal i1 @watch(ptr %word, i32 %known) {
  %clock = alloca [2 x i64], align 8
  %start = call i64 @now(ptr %clock)
  %end_of_watch = add i64 %start, $SPIN
  br label %round

round:
  br label %look

look:
  %count = phi i32 [ 0, %round ], [ %next, %same ]
  %value = load atomic i32, ptr %word acquire, align 4
  %changed = icmp ne i32 %value, %known
  br i1 %changed, label %yes, label %same

same:
  call void asm sideeffect "$PAUSE", ""()
  %next = add i32 %count, 1
  %on = icmp ult i32 %next, 16
  br i1 %on, label %look, label %check

check:
  %time = call i64 @now(ptr %clock)
  %early = icmp ult i64 %time, %end_of_watch
  br i1 %early, label %round, label %no

yes:
  ret i1 true

no:
  ret i1 false
}

define internal i64 @now(ptr %clock) {
  %_ = call i32 @clock_gettime(i32 1, ptr %clock)
  %seconds = load i64, ptr %clock
  %part_at = getelementptr [2 x i64], ptr %clock, i64 0, i64 1
  %part = load i64, ptr %part_at
  %whole = mul i64 %seconds, 1000000000
  %time = add i64 %whole, %part
  ret i64 %time
}

; FUTEX_WAIT_PRIVATE: until somebody wakes it, unless the word is another already.
define internal void @sleep(ptr %word, i32 %known) {
  %_ = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i64 128, i32 %known, ptr null, ptr null, i64 0)
  ret void
}

; FUTEX_WAKE_PRIVATE
define internal void @wake(ptr %word, i32 %count) {
  %_ = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i64 129, i32 %count, ptr null, ptr null, i64 0)
  ret void
}
