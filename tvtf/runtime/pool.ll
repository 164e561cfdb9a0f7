; Written by `make pool` from pool.c of sha256 ee5ffd447475dd2f370b8ca7c8bde080a6bfc08b9e71a323fd2c5ea7fe2f87b6: change that file, not this one.

%struct.Slot = type { i32, i32, ptr, ptr, %struct.Environment, ptr, [16 x i8], i32, i32, [56 x i8] }
%struct.Environment = type { ptr, i32 }
%struct.__sigset_t = type { [16 x i64] }
%struct.Range = type { i64, [56 x i8] }
%struct.timespec = type { i64, i64 }

@threads = internal global i32 1, align 4
@spin = internal global i64 0, align 8
@futex = internal global i64 0, align 8
@ranges = internal global ptr null, align 8
@slots = internal global [8 x %struct.Slot] zeroinitializer, align 64
@started = internal global i32 0, align 4
@sleepers = internal global i32 0, align 64
@epoch = internal global i32 0, align 64

define void @tvtf_pool_configure(i32 %thread_count, i64 %spin_nanoseconds, i64 %futex_number) {
entry:
  store i32 %thread_count, ptr @threads, align 4
  store i64 %spin_nanoseconds, ptr @spin, align 8
  store i64 %futex_number, ptr @futex, align 8
  %conv = sext i32 %thread_count to i64
  %mul = shl nsw i64 %conv, 3
  %call = tail call ptr @calloc(i64 %mul, i64 64)
  store ptr %call, ptr @ranges, align 8
  ret void
}

declare ptr @calloc(i64, i64)

define void @tvtf_pool_forked() {
entry:
  %0 = load ptr, ptr @ranges, align 8
  %1 = load i32, ptr @threads, align 4
  %conv = sext i32 %1 to i64
  %mul1 = shl nsw i64 %conv, 9
  tail call void @llvm.memset.p0.i64(ptr align 64 %0, i8 0, i64 %mul1, i1 false)
  tail call void @llvm.memset.p0.i64(ptr align 64 @slots, i8 0, i64 1024, i1 false)
  store atomic i32 0, ptr @started seq_cst, align 4
  store atomic i32 0, ptr @sleepers seq_cst, align 64
  store atomic i32 0, ptr @epoch seq_cst, align 64
  ret void
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define i32 @tvtf_pool_launch(ptr %kernel, ptr %data, i32 %asked) {
entry:
  %environment.i = alloca %struct.Environment, align 8
  %all.i.i = alloca %struct.__sigset_t, align 8
  %before.i.i = alloca %struct.__sigset_t, align 8
  %handle.i.i = alloca i64, align 8
  %tobool.not = icmp eq i32 %asked, 0
  %0 = load i32, ptr @threads, align 4
  %cond = select i1 %tobool.not, i32 %0, i32 %asked
  %1 = add i32 %cond, -2
  %or.cond = icmp ult i32 %1, 65534
  %cmp3 = icmp sgt i32 %0, 1
  %or.cond18 = select i1 %or.cond, i1 %cmp3, i1 false
  br i1 %or.cond18, label %for.cond.preheader, label %if.end8

for.cond.preheader:
  %2 = ptrtoint ptr %kernel to i64
  %3 = ptrtoint ptr %data to i64
  %sub.i.i = add nsw i32 %cond, -1
  br label %for.body

for.body:
  %slot.0.idx35 = phi i64 [ 0, %for.cond.preheader ], [ %slot.0.add, %for.inc ]
  %slot.0.ptr37 = getelementptr inbounds i8, ptr @slots, i64 %slot.0.idx35
  %4 = cmpxchg ptr %slot.0.ptr37, i32 0, i32 1 acquire monotonic, align 64
  %5 = extractvalue { i32, i1 } %4, 1
  br i1 %5, label %if.then5, label %for.inc

if.then5:
  %6 = cmpxchg ptr @started, i32 0, i32 1 acq_rel monotonic, align 4
  %7 = extractvalue { i32, i1 } %6, 1
  br i1 %7, label %if.end.i.i, label %start.exit.i

if.end.i.i:
  %call.i.i = call i32 @sigfillset(ptr %all.i.i)
  %call1.i.i = call i32 @pthread_sigmask(i32 2, ptr %all.i.i, ptr %before.i.i)
  %8 = load i32, ptr @threads, align 4
  %cmp11.i.i = icmp sgt i32 %8, 1
  br i1 %cmp11.i.i, label %for.body.i.i, label %for.cond.cleanup.i.i

for.cond.cleanup.i.i:
  %call7.i.i = call i32 @pthread_sigmask(i32 2, ptr %before.i.i, ptr null)
  br label %start.exit.i

for.body.i.i:
  %number.012.i.i = phi i64 [ %inc.i.i, %if.end6.i.i ], [ 1, %if.end.i.i ]
  %9 = inttoptr i64 %number.012.i.i to ptr
  %call3.i.i = call i32 @pthread_create(ptr %handle.i.i, ptr null, ptr @thread, ptr %9)
  %tobool.not.i.i = icmp eq i32 %call3.i.i, 0
  br i1 %tobool.not.i.i, label %if.then4.i.i, label %if.end6.i.i

if.then4.i.i:
  %10 = load i64, ptr %handle.i.i, align 8
  %call5.i.i = call i32 @pthread_detach(i64 %10)
  br label %if.end6.i.i

if.end6.i.i:
  %inc.i.i = add nuw nsw i64 %number.012.i.i, 1
  %11 = load i32, ptr @threads, align 4
  %conv.i.i = sext i32 %11 to i64
  %cmp.i.i = icmp slt i64 %inc.i.i, %conv.i.i
  br i1 %cmp.i.i, label %for.body.i.i, label %for.cond.cleanup.i.i

start.exit.i:
  %generation1.i.i = getelementptr inbounds i8, ptr %slot.0.ptr37, i64 4
  %12 = load i32, ptr %generation1.i.i, align 4
  %inc.i9.i = add i32 %12, 1
  store i32 %inc.i9.i, ptr %generation1.i.i, align 4
  %kernel2.i.i = getelementptr inbounds i8, ptr %slot.0.ptr37, i64 8
  store atomic i64 %2, ptr %kernel2.i.i monotonic, align 8
  %data3.i.i = getelementptr inbounds i8, ptr %slot.0.ptr37, i64 16
  store atomic i64 %3, ptr %data3.i.i monotonic, align 16
  %tasks5.i.i = getelementptr inbounds i8, ptr %slot.0.ptr37, i64 32
  store i32 %cond, ptr %tasks5.i.i, align 8
  %pending.i.i = getelementptr inbounds i8, ptr %slot.0.ptr37, i64 64
  store atomic i32 %cond, ptr %pending.i.i monotonic, align 64
  %13 = load i32, ptr @threads, align 4
  %cmp26.not.i.i = icmp eq i32 %13, 0
  br i1 %cmp26.not.i.i, label %for.cond.cleanup.i13.i, label %for.body.lr.ph.i.i

for.body.lr.ph.i.i:
  %conv.i10.i = zext i32 %inc.i9.i to i64
  %sub.ptr.div.i.i.i = lshr exact i64 %slot.0.idx35, 7
  %shl.i.i = shl nuw i64 %conv.i10.i, 32
  %.pre.i.i = load ptr, ptr @ranges, align 8
  %conv.i.i.i = sext i32 %13 to i64
  %mul.i.i.i = mul nsw i64 %sub.ptr.div.i.i.i, %conv.i.i.i
  %14 = getelementptr %struct.Range, ptr %.pre.i.i, i64 %mul.i.i.i
  br label %for.body.i11.i

for.cond.cleanup.i13.i:
  %15 = atomicrmw add ptr @epoch, i32 1 seq_cst, align 64
  %atomic-load.i.i = load atomic i32, ptr @sleepers seq_cst, align 64
  %tobool.not.i14.i = icmp eq i32 %atomic-load.i.i, 0
  br i1 %tobool.not.i14.i, label %publish.exit.i, label %if.then.i.i

for.body.i11.i:
  %owner.028.i.i = phi i32 [ 0, %for.body.lr.ph.i.i ], [ %add.i.i, %for.body.i11.i ]
  %first.027.i.i = phi i32 [ 0, %for.body.lr.ph.i.i ], [ %div.i.i, %for.body.i11.i ]
  %add.i.i = add nuw i32 %owner.028.i.i, 1
  %mul.i.i = mul i32 %add.i.i, %cond
  %div.i.i = udiv i32 %mul.i.i, %13
  %conv1.i.i.i = sext i32 %owner.028.i.i to i64
  %arrayidx.i.i.i = getelementptr %struct.Range, ptr %14, i64 %conv1.i.i.i
  %shl9.i.i = shl i32 %div.i.i, 16
  %conv10.i.i = zext i32 %shl9.i.i to i64
  %or.i.i = or disjoint i64 %shl.i.i, %conv10.i.i
  %conv11.i.i = zext i32 %first.027.i.i to i64
  %or12.i.i = or i64 %or.i.i, %conv11.i.i
  store atomic i64 %or12.i.i, ptr %arrayidx.i.i.i release, align 64
  %exitcond.not.i = icmp eq i32 %add.i.i, %13
  br i1 %exitcond.not.i, label %for.cond.cleanup.i13.i, label %for.body.i11.i

if.then.i.i:
  %16 = load i64, ptr @futex, align 8
  %call.i.i.i = call i64 (i64, ...) @syscall(i64 %16, ptr @epoch, i32 129, i32 %sub.i.i, ptr null, ptr null, i32 0)
  br label %publish.exit.i

publish.exit.i:
  call fastcc void @work(ptr %slot.0.ptr37, i32 0)
  %17 = load atomic i32, ptr %pending.i.i acquire, align 64
  %tobool.not10.i.i = icmp eq i32 %17, 0
  br i1 %tobool.not10.i.i, label %await.exit.i, label %while.body.lr.ph.i.i

while.body.lr.ph.i.i:
  %awaited.i.i = getelementptr inbounds i8, ptr %slot.0.ptr37, i64 68
  br label %while.body.i.i

while.body.i.i:
  %18 = phi i32 [ %17, %while.body.lr.ph.i.i ], [ %20, %while.cond.backedge.i.i ]
  %call.i16.i = call fastcc zeroext i1 @watch(ptr %pending.i.i, i32 %18)
  br i1 %call.i16.i, label %while.cond.backedge.i.i, label %if.end.i17.i

if.end.i17.i:
  store atomic i32 1, ptr %awaited.i.i seq_cst, align 4
  %19 = load i64, ptr @futex, align 8
  %call.i.i18.i = call i64 (i64, ...) @syscall(i64 %19, ptr %pending.i.i, i32 128, i32 %18, ptr null, ptr null, i32 0)
  store atomic i32 0, ptr %awaited.i.i seq_cst, align 4
  br label %while.cond.backedge.i.i

while.cond.backedge.i.i:
  %20 = load atomic i32, ptr %pending.i.i acquire, align 64
  %tobool.not.i19.i = icmp eq i32 %20, 0
  br i1 %tobool.not.i19.i, label %await.exit.i, label %while.body.i.i

await.exit.i:
  %error1.i = getelementptr inbounds i8, ptr %slot.0.ptr37, i64 40
  %21 = atomicrmw xchg ptr %error1.i, i64 0 monotonic, align 8
  store atomic i32 0, ptr %slot.0.ptr37 release, align 64
  %tobool.not.i = icmp eq i64 %21, 0
  br i1 %tobool.not.i, label %cleanup15, label %if.end.i

if.end.i:
  %22 = inttoptr i64 %21 to ptr
  call void @TVMFFIErrorSetRaised(ptr %22)
  %call.i = call i32 @TVMFFIObjectDecRef(ptr %22)
  br label %cleanup15

for.inc:
  %slot.0.add = add nuw nsw i64 %slot.0.idx35, 128
  %cmp4 = icmp ugt i64 %slot.0.idx35, 895
  br i1 %cmp4, label %if.end8, label %for.body

if.end8:
  %cond13 = tail call i32 @llvm.umax.i32(i32 %asked, i32 1)
  store ptr null, ptr %environment.i, align 8
  %tasks1.i = getelementptr inbounds i8, ptr %environment.i, i64 8
  store i32 %cond13, ptr %tasks1.i, align 8
  %cmp6.i = icmp sgt i32 %cond13, 0
  br i1 %cmp6.i, label %for.body.i, label %run_alone.exit

for.body.i:
  %task.07.i = phi i32 [ %inc.i, %for.body.i ], [ 0, %if.end8 ]
  %call.i30 = call i32 %kernel(i32 %task.07.i, ptr %environment.i, ptr %data)
  %inc.i = add nuw nsw i32 %task.07.i, 1
  %cmp.i = icmp slt i32 %inc.i, %cond13
  %tobool.not.i31 = icmp eq i32 %call.i30, 0
  %23 = select i1 %cmp.i, i1 %tobool.not.i31, i1 false
  br i1 %23, label %for.body.i, label %run_alone.exit

run_alone.exit:
  %status.0.lcssa.i = phi i32 [ 0, %if.end8 ], [ %call.i30, %for.body.i ]
  br label %cleanup15

cleanup15:
  %retval.3 = phi i32 [ %status.0.lcssa.i, %run_alone.exit ], [ -1, %if.end.i ], [ 0, %await.exit.i ]
  ret i32 %retval.3
}

define internal fastcc void @work(ptr %slot, i32 %self) {
entry:
  %error.i = alloca ptr, align 8
  %0 = load i32, ptr @threads, align 4
  %cmp47 = icmp sgt i32 %0, 0
  br i1 %cmp47, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %sub.ptr.lhs.cast.i = ptrtoint ptr %slot to i64
  %sub.ptr.sub.i = sub i64 %sub.ptr.lhs.cast.i, ptrtoint (ptr @slots to i64)
  %sub.ptr.div.i = ashr exact i64 %sub.ptr.sub.i, 7
  %kernel8 = getelementptr inbounds i8, ptr %slot, i64 8
  %data10 = getelementptr inbounds i8, ptr %slot, i64 16
  %environment = getelementptr inbounds i8, ptr %slot, i64 24
  %error1.i = getelementptr inbounds i8, ptr %slot, i64 40
  %pending.i = getelementptr inbounds i8, ptr %slot, i64 64
  %awaited.i = getelementptr inbounds i8, ptr %slot, i64 68
  br label %for.body

for.cond.cleanup:
  ret void

for.body:
  %1 = phi i32 [ %0, %for.body.lr.ph ], [ %21, %for.end ]
  %visited.048 = phi i32 [ 0, %for.body.lr.ph ], [ %inc, %for.end ]
  %add = add nsw i32 %visited.048, %self
  %rem = srem i32 %add, %1
  %2 = load ptr, ptr @ranges, align 8
  %conv.i = sext i32 %1 to i64
  %mul.i = mul nsw i64 %sub.ptr.div.i, %conv.i
  %conv1.i = sext i32 %rem to i64
  %3 = getelementptr %struct.Range, ptr %2, i64 %mul.i
  %arrayidx.i = getelementptr %struct.Range, ptr %3, i64 %conv1.i
  %4 = load atomic i64, ptr %arrayidx.i acquire, align 64
  %conv43 = trunc i64 %4 to i32
  %5 = lshr i32 %conv43, 16
  %conv444 = and i32 %conv43, 65535
  %cmp6.not45 = icmp ult i32 %conv444, %5
  br i1 %cmp6.not45, label %if.end, label %for.end

if.end:
  %conv446 = phi i32 [ %conv4, %cleanup21 ], [ %conv444, %for.body ]
  %6 = phi i64 [ %19, %cleanup21 ], [ %4, %for.body ]
  %7 = load atomic i64, ptr %kernel8 monotonic, align 8
  %8 = load atomic i64, ptr %data10 monotonic, align 16
  %add13 = add i64 %6, 1
  %9 = cmpxchg ptr %arrayidx.i, i64 %6, i64 %add13 acq_rel monotonic, align 64
  %10 = extractvalue { i64, i1 } %9, 1
  br i1 %10, label %if.end15, label %cleanup21

if.end15:
  %11 = inttoptr i64 %8 to ptr
  %12 = inttoptr i64 %7 to ptr
  %call17 = call i32 %12(i32 %conv446, ptr %environment, ptr %11)
  %tobool.not = icmp eq i32 %call17, 0
  br i1 %tobool.not, label %if.end19, label %if.then18

if.then18:
  store ptr null, ptr %error.i, align 8
  call void @TVMFFIErrorMoveFromRaised(ptr %error.i)
  %13 = load ptr, ptr %error.i, align 8
  %14 = ptrtoint ptr %13 to i64
  %15 = atomicrmw xchg ptr %error1.i, i64 %14 acq_rel, align 8
  %tobool.not.i = icmp eq i64 %15, 0
  br i1 %tobool.not.i, label %keep_error.exit, label %if.then.i

if.then.i:
  %16 = inttoptr i64 %15 to ptr
  %call.i = call i32 @TVMFFIObjectDecRef(ptr %16)
  br label %keep_error.exit

keep_error.exit:
  br label %if.end19

if.end19:
  %17 = atomicrmw sub ptr %pending.i, i32 1 seq_cst, align 64
  %cmp.i = icmp eq i32 %17, 1
  br i1 %cmp.i, label %land.lhs.true.i, label %cleanup21

land.lhs.true.i:
  %atomic-load.i = load atomic i32, ptr %awaited.i seq_cst, align 4
  %tobool.not.i38 = icmp eq i32 %atomic-load.i, 0
  br i1 %tobool.not.i38, label %cleanup21, label %if.then.i39

if.then.i39:
  %18 = load i64, ptr @futex, align 8
  %call.i.i = call i64 (i64, ...) @syscall(i64 %18, ptr %pending.i, i32 129, i32 1, ptr null, ptr null, i32 0)
  br label %cleanup21

cleanup21:
  %19 = load atomic i64, ptr %arrayidx.i acquire, align 64
  %conv = trunc i64 %19 to i32
  %20 = lshr i32 %conv, 16
  %conv4 = and i32 %conv, 65535
  %cmp6.not = icmp ult i32 %conv4, %20
  br i1 %cmp6.not, label %if.end, label %for.end

for.end:
  %inc = add nuw nsw i32 %visited.048, 1
  %21 = load i32, ptr @threads, align 4
  %cmp = icmp slt i32 %inc, %21
  br i1 %cmp, label %for.body, label %for.cond.cleanup
}

declare void @TVMFFIErrorSetRaised(ptr)

declare i32 @TVMFFIObjectDecRef(ptr)

declare i32 @sigfillset(ptr)

declare i32 @pthread_sigmask(i32, ptr, ptr)

declare i32 @pthread_create(ptr, ptr, ptr, ptr)

define internal ptr @thread(ptr %self) {
entry:
  %0 = ptrtoint ptr %self to i64
  %conv = trunc i64 %0 to i32
  br label %for.cond

for.cond:
  %1 = load atomic i32, ptr @epoch acquire, align 64
  br label %for.body

for.cond.cleanup:
  %call = tail call fastcc zeroext i1 @watch(ptr @epoch, i32 %1)
  br i1 %call, label %for.cond.backedge, label %if.end

for.cond.backedge:
  br label %for.cond

for.body:
  %slot.0.idx5 = phi i64 [ 0, %for.cond ], [ %slot.0.add, %for.body ]
  %slot.0.ptr = getelementptr inbounds i8, ptr @slots, i64 %slot.0.idx5
  tail call fastcc void @work(ptr %slot.0.ptr, i32 %conv)
  %slot.0.add = add nuw nsw i64 %slot.0.idx5, 128
  %cmp = icmp ult i64 %slot.0.idx5, 896
  br i1 %cmp, label %for.body, label %for.cond.cleanup

if.end:
  %2 = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 64
  %3 = load i64, ptr @futex, align 8
  %call.i = tail call i64 (i64, ...) @syscall(i64 %3, ptr @epoch, i32 128, i32 %1, ptr null, ptr null, i32 0)
  %4 = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 64
  br label %for.cond.backedge
}

declare i32 @pthread_detach(i64)

define internal fastcc zeroext i1 @watch(ptr %word, i32 %known) {
entry:
  %time.i6 = alloca %struct.timespec, align 8
  %time.i = alloca %struct.timespec, align 8
  %call.i = call i32 @clock_gettime(i32 1, ptr %time.i)
  %0 = load i64, ptr %time.i, align 8
  %mul.i = mul nsw i64 %0, 1000000000
  %tv_nsec.i = getelementptr inbounds i8, ptr %time.i, i64 8
  %1 = load i64, ptr %tv_nsec.i, align 8
  %add.i = add nsw i64 %mul.i, %1
  %2 = load i64, ptr @spin, align 8
  %add = add nsw i64 %add.i, %2
  %tv_nsec.i9 = getelementptr inbounds i8, ptr %time.i6, i64 8
  br label %do.body

do.body:
  %3 = load atomic i32, ptr %word acquire, align 4
  %cmp1.not22 = icmp eq i32 %3, %known
  br i1 %cmp1.not22, label %if.end, label %cleanup4

for.body:
  %4 = load atomic i32, ptr %word acquire, align 4
  %cmp1.not = icmp eq i32 %4, %known
  br i1 %cmp1.not, label %if.end, label %cleanup4.loopexit

if.end:
  %look.01423 = phi i32 [ %inc, %for.body ], [ 0, %do.body ]
  call void asm sideeffect "SPIN_PAUSE", ""()
  %inc = add nuw nsw i32 %look.01423, 1
  %exitcond.not = icmp eq i32 %inc, 16
  br i1 %exitcond.not, label %do.cond, label %for.body

do.cond:
  %call.i7 = call i32 @clock_gettime(i32 1, ptr %time.i6)
  %5 = load i64, ptr %time.i6, align 8
  %mul.i8 = mul nsw i64 %5, 1000000000
  %6 = load i64, ptr %tv_nsec.i9, align 8
  %add.i10 = add nsw i64 %mul.i8, %6
  %cmp3 = icmp slt i64 %add.i10, %add
  br i1 %cmp3, label %do.body, label %cleanup4.loopexit25.split.loop.exit30

cleanup4.loopexit:
  %cmp.le = icmp ult i32 %look.01423, 15
  br label %cleanup4

cleanup4.loopexit25.split.loop.exit30:
  %cmp.le28.le = icmp ult i32 %look.01423, 15
  br label %cleanup4

cleanup4:
  %cmp13 = phi i1 [ %cmp.le, %cleanup4.loopexit ], [ %cmp.le28.le, %cleanup4.loopexit25.split.loop.exit30 ], [ true, %do.body ]
  ret i1 %cmp13
}

declare i32 @clock_gettime(i32, ptr)

declare i64 @syscall(i64, ...)

declare void @TVMFFIErrorMoveFromRaised(ptr)

declare i32 @llvm.umax.i32(i32, i32)
