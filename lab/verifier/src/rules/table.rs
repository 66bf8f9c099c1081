//! The table of rules.
//!
//! Stop codes, sub-codes and parameters are those of the bug check reference
//! (0xC2, 0xC4, 0xC7, 0xC9 …); a rule without one there has the code of what
//! would happen on Windows without a verifier.

use nt::stop;

use super::{Class, Rule, Severity};

macro_rules! rules {
    ($( $class:ident { $(
        $severity:ident $id:ident $name:literal $stop:ident $(/ $subcode:literal)? [$($parameter:literal),*]
            $meaning:literal $remedy:literal
    )* } )*) => {
        /// Identity of a rule.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u8)]
        pub enum RuleId { $($(
            #[doc = $meaning]
            $id,
        )*)* }

        /// Every rule, in the order of [`RuleId`].
        pub static RULES: &[Rule] = &[$($(
            Rule {
                id: RuleId::$id,
                name: $name,
                class: Class::$class,
                severity: Severity::$severity,
                stop: stop::$stop,
                subcode: rules!(@subcode $($subcode)?),
                parameters: &[$($parameter),*],
                meaning: $meaning,
                remedy: $remedy,
            },
        )*)*];
    };
    (@subcode) => { None };
    (@subcode $subcode:literal) => { Some($subcode) };
}

rules! {
Pool {
    Hard PoolOverrun "pool-overrun" DRIVER_PAGE_FAULT_BEYOND_END_OF_ALLOCATION ["address", "0 read, 1 write, 8 execute", "instruction", "IRQL"]
        "The driver touched memory past the end of a pool block."
        "Check the length against the block's size."
    Hard PoolUseAfterFree "pool-use-after-free" DRIVER_PAGE_FAULT_IN_FREED_SPECIAL_POOL ["address", "0 read, 1 write, 8 execute", "instruction", "IRQL"]
        "The driver touched a pool block after freeing it."
        "Find who still holds the pointer; the report names both call sites."
    Hard PoolCorruption "pool-corruption" SPECIAL_POOL_DETECTED_MEMORY_CORRUPTION ["block", "changed byte", "0", "0x24: bytes behind the block"]
        "Bytes behind a pool block changed: it was written past its end."
        "Check the lengths of writes to the block."
    Hard PoolUnderrun "pool-underrun" DRIVER_PAGE_FAULT_BEYOND_END_OF_ALLOCATION ["address", "0 read, 1 write, 8 execute", "instruction", "IRQL"]
        "The driver touched memory before the start of a pool block."
        "Check the offset against the block's start."
    Hard PoolCorruptionBefore "pool-corruption-before" SPECIAL_POOL_DETECTED_MEMORY_CORRUPTION ["block", "changed byte", "0", "0x23: bytes near the block"]
        "Bytes before a pool block changed: it was written before its start."
        "Check for negative indices, and for a pointer moved back too far."
    Soft PoolDoubleFree "pool-double-free" BAD_POOL_CALLER / 0x7 ["reserved", "pool tag", "address"]
        "The driver freed a pool block twice."
        "Clear the pointer when freeing, or own it in one place."
    Soft PoolBadFree "pool-bad-free" BAD_POOL_CALLER / 0x46 ["address"]
        "The driver freed an address that is no pool block."
        "Free exactly the address that the allocation returned."
    Soft PoolWrongTag "pool-wrong-tag" BAD_POOL_CALLER / 0xA ["address", "allocator's tag", "tag of the free"]
        "The driver freed a pool block with another tag than it was allocated with."
        "Use one tag for both."
    Soft PoolWrongFunction "pool-wrong-function" BAD_POOL_CALLER ["0x60 MmFreeContiguousMemory of pool, 0x46 ExFreePool of contiguous memory", "address"]
        "The driver freed memory with the function of another allocator."
        "MmAllocateContiguousMemory goes with MmFreeContiguousMemory, ExAllocatePool with ExFreePool."
    Soft PoolZeroBytes "pool-zero-bytes" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x0 ["IRQL", "pool type"]
        "The driver allocated zero bytes of pool."
        "Skip the allocation when the length is zero."
    Soft PoolTagZero "pool-tag-zero" BAD_POOL_CALLER / 0x9B ["pool type", "bytes", "caller"]
        "The driver allocated pool with tag zero."
        "Give every allocation a tag, so that tools can tell whose it is."
    Soft PoolExecutable "pool-executable" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x2000 ["caller", "pool type or flags", "tag"]
        "The driver allocated executable pool."
        "Use NonPagedPoolNx, or ExAllocatePool2 with POOL_FLAG_NON_PAGED; memory integrity refuses executable pool."
    Soft PoolIrql "pool-irql" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1 ["IRQL", "pool type", "bytes"]
        "The driver allocated paged pool above APC_LEVEL."
        "Use nonpaged pool, or allocate before raising the IRQL."
    Soft PoolIrqlNonpaged "pool-irql-nonpaged" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x2 ["IRQL", "pool type", "bytes"]
        "The driver allocated pool above DISPATCH_LEVEL."
        "Allocate beforehand, or in the DPC."
    Soft PoolFreeIrql "pool-free-irql" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x11 ["IRQL", "pool type", "address"]
        "The driver freed paged pool above APC_LEVEL."
        "Free it after lowering the IRQL, or use nonpaged pool."
    Soft PoolFreeIrqlNonpaged "pool-free-irql-nonpaged" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x12 ["IRQL", "pool type", "address"]
        "The driver freed pool above DISPATCH_LEVEL."
        "Free it in the DPC, or after lowering the IRQL."
    Soft PoolLeak "pool-leak" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x62 ["driver", "reserved", "blocks"]
        "The driver unloaded without freeing pool."
        "Free every block on unload and on every failing path of DriverEntry."
}
Irql {
    Soft IrqlContract "irql-contract" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xE5 ["IRQL", "caller"]
        "The driver called a kernel function at an IRQL that its contract forbids."
        "The report names the function and the IRQLs at which it may be called."
    Soft ZwIrql "zw-irql" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xE6 ["caller", "IRQL", "special kernel APCs disabled"]
        "The driver called a Zw function above PASSIVE_LEVEL."
        "Move the call to a work item or system thread."
    Soft ZwUserAddress "zw-user-address" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xE3 ["caller", "address"]
        "The driver passed an address of a user program to a Zw function, which trusts its caller's addresses."
        "Copy to and from memory of the kernel; the program can change or unmap its own meanwhile."
    Soft IrqlRaiseBelow "irql-raise-below" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x30 ["IRQL", "requested IRQL"]
        "The driver raised the IRQL to a lower level than the current one."
        "Raise to a level at or above the current one."
    Soft IrqlLowerAbove "irql-lower-above" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x31 ["IRQL", "requested IRQL"]
        "The driver lowered the IRQL to a higher level than the current one."
        "Lower to what the paired raise returned."
    Soft IrqlChanged "irql-changed" IRQL_UNEXPECTED_VALUE ["routine", "IRQL before", "IRQL after"]
        "A routine of the driver returned at another IRQL than it was called at."
        "Pair every raise and lock with its lower and unlock on every path."
    Soft IrqlChangedByDispatch "irql-changed-by-dispatch" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x5 ["device", "IRQL before", "IRQL after"]
        "A dispatch routine returned at another IRQL than it was called at."
        "Pair every raise and lock with its lower and unlock on every path."
    Soft IrqlChangedByCompletion "irql-changed-by-completion" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xFA ["completion routine", "IRQL before", "IRQL after"]
        "A completion routine returned at another IRQL than it was called at."
        "Pair every raise and lock with its lower and unlock on every path."
}
Locks {
    Hard SpinLockRecursive "spin-lock-recursive" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1000 ["lock"]
        "The driver acquired a spin lock that its processor holds already."
        "A spin lock is not recursive: release it first, or pass the guard down."
    Soft SpinLockNotOwned "spin-lock-not-owned" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1007 ["lock"]
        "The driver released a spin lock that nobody holds."
        "Release once, on every path exactly one time."
    Soft SpinLockWrongOwner "spin-lock-wrong-owner" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1004 ["lock", "thread that acquired it", "thread"]
        "The driver released a spin lock that another processor holds."
        "Whoever acquires a lock releases it."
    Hard SpinLockUninitialized "spin-lock-uninitialized" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1002 ["lock"]
        "The driver acquired a spin lock that contains neither zero nor an owner."
        "KeInitializeSpinLock once, before the first use; look for what overwrote it."
    Soft SpinLockWrongFunction "spin-lock-wrong-function" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1009 ["lock"]
        "The driver released a spin lock with a function that does not go with the one that acquired it."
        "KeAcquireSpinLock goes with KeReleaseSpinLock, …AtDpcLevel with …FromDpcLevel, in-stack queued with in-stack queued."
    Soft SpinLockMixed "spin-lock-mixed" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1008 ["lock"]
        "The driver uses one spin lock both as an ordinary and as an in-stack queued lock."
        "Acquire a lock by the same kind of function everywhere."
    Soft SpinLockIrql "spin-lock-irql" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x40 ["IRQL", "lock"]
        "The driver called KeAcquireSpinLockAtDpcLevel below DISPATCH_LEVEL."
        "Use KeAcquireSpinLock, which raises the IRQL."
    Soft SpinLockReleaseIrql "spin-lock-release-irql" DRIVER_VERIFIER_DETECTED_VIOLATION ["0x41 KeReleaseSpinLockFromDpcLevel, 0x32 KeReleaseSpinLock", "IRQL", "lock"]
        "The driver released a spin lock at an IRQL at which it can't be held."
        "Lower the IRQL after releasing the lock, not before."
    Soft SpinLockRaiseIrql "spin-lock-raise-irql" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x42 ["IRQL", "lock"]
        "The driver called KeAcquireSpinLock above DISPATCH_LEVEL."
        "Interrupt routines share an interrupt's lock, not a spin lock of DISPATCH_LEVEL."
    Soft SpinLockHeld "spin-lock-held-at-return" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x40009 ["lock", "routine"]
        "A routine of the driver returned and holds a spin lock that it acquired."
        "Release on every path."
    Soft LockHeld "lock-held-at-return" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x100A ["thread", "lock", "routine"]
        "A routine of the driver returned, or its thread ended, with a lock that it acquired."
        "Release on every path."
    Hard LockRecursive "lock-recursive" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1000 ["lock"]
        "The driver acquired a lock that its own thread holds and that is not recursive: it waits for itself."
        "Release it first; a reader of a resource can't become its writer by acquiring again."
    Soft LockNotOwned "lock-not-owned" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1007 ["lock"]
        "The driver released a mutex, resource or push lock that nobody holds."
        "Release once for each acquisition."
    Soft LockWrongThread "lock-wrong-thread" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1004 ["lock", "thread that acquired it", "thread"]
        "A thread released a mutex, resource or push lock that another thread holds."
        "Whoever acquires a lock releases it."
    Soft LockOrder "lock-order" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1001 ["lock"]
        "Locks are acquired in one order here and in the opposite order elsewhere: two threads can wait for each other for ever."
        "Decide on one order and keep to it everywhere; the report names both places."
    Hard Deadlock "deadlock" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1001 ["lock"]
        "Every processor waits for something that none of them can bring about."
        "The report names who holds what."
    Soft LockFreed "lock-freed" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x100B ["lock", "owner"]
        "The driver freed memory, or deleted a resource, with a lock that somebody holds."
        "Release it first, and make sure that nobody else can come to it."
    Soft ResourceInitializedTwice "resource-initialized-twice" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xD0 ["resource"]
        "The driver initialised an executive resource that is initialised."
        "ExInitializeResourceLite once, and ExDeleteResourceLite before the memory is used anew."
    Hard ResourceUninitialized "resource-uninitialized" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1002 ["resource"]
        "The driver used an executive resource that was not initialised."
        "ExInitializeResourceLite before the first use."
    Soft ResourceDeletedTwice "resource-deleted-twice" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xD1 ["resource"]
        "The driver deleted an executive resource that is not initialised."
        "Delete once what was initialised."
    Soft ResourceFreed "resource-freed" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xD2 ["resource", "block", "bytes"]
        "The driver freed memory that holds an executive resource."
        "ExDeleteResourceLite before freeing: the kernel keeps all resources in a list."
    Soft ResourceApcs "resource-apcs-enabled" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x37 ["IRQL", "APC disable count", "resource"]
        "The driver acquired an executive resource with normal kernel APCs enabled: the thread may be suspended while it holds it."
        "KeEnterCriticalRegion before acquiring, KeLeaveCriticalRegion after releasing."
    Soft PushLockApcs "push-lock-apcs-enabled" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xEA ["IRQL", "APC disable count", "push lock"]
        "The driver acquired a push lock with normal kernel APCs enabled: the thread may be suspended while it holds it."
        "KeEnterCriticalRegion before acquiring, KeLeaveCriticalRegion after releasing."
    Soft CriticalRegionNotEntered "critical-region-not-entered" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x3E []
        "The driver left a critical region that its thread is not in."
        "Pair KeEnterCriticalRegion and KeLeaveCriticalRegion."
    Soft GuardedRegionNotEntered "guarded-region-not-entered" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x4000E []
        "The driver left a guarded region that its thread is not in."
        "Pair KeEnterGuardedRegion and KeLeaveGuardedRegion."
    Soft ApcDisableChanged "region-left-entered" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xC5 ["routine", "APC disable count", "count before"]
        "A routine of the driver returned inside a critical or guarded region that it entered."
        "Leave the region on every path."
    Hard WaitAtDispatch "wait-at-dispatch" DRIVER_VERIFIER_DETECTED_VIOLATION ["0x121 without a timeout, 0x122 with one", "IRQL", "object", "timeout"]
        "The driver waited at DISPATCH_LEVEL or above, where a thread can't be switched."
        "Wait at APC_LEVEL or below, or pass a timeout of zero."
    Soft WaitUserStack "wait-user-mode-on-stack" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x123 ["object"]
        "The driver waited in UserMode for an object on its stack, which may be paged out meanwhile."
        "Wait in KernelMode, or keep the object in nonpaged pool."
    Soft RemoveLockNotHeld "remove-lock-not-held" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xD5 ["remove lock", "tag"]
        "The driver released a remove lock that it did not acquire with that tag."
        "Pair every IoAcquireRemoveLock with one IoReleaseRemoveLock and the same tag."
    Soft RemoveLockReinitialized "remove-lock-reinitialized" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xD7 ["remove lock", "remove lock"]
        "The driver initialised a remove lock that is in use."
        "Initialise it once, where the device is made."
}
Irp {
    Soft IrpCompletedTwice "irp-completed-twice" MULTIPLE_IRP_COMPLETE_REQUESTS ["IRP"]
        "The driver completed an IRP twice."
        "After IofCompleteRequest the IRP belongs to the I/O manager."
    Hard IrpTouched "irp-touched-after-completion" DRIVER_PAGE_FAULT_IN_FREED_SPECIAL_POOL ["address", "0 read, 1 write, 8 execute", "instruction", "IRQL"]
        "The driver touched an IRP after it was completed or freed."
        "After IofCompleteRequest the IRP belongs to the I/O manager: keep what is needed in variables."
    Hard IrpInvalid "irp-invalid" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x3 ["address"]
        "The driver passed something as an IRP that is none."
        "Pass the IRP that the dispatch routine was given, or one that IoAllocateIrp made."
    Hard DeviceInvalid "device-invalid" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x4 ["address"]
        "The driver passed something as a device object that is none, or no longer."
        "Keep a reference to a device, or hold its remove lock, for as long as it is used."
    Soft IrpBadStatus "irp-bad-status" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x6 ["status", "IRP"]
        "The driver completed an IRP with STATUS_PENDING, or with 0xFFFFFFFF."
        "Set IoStatus.Status to the outcome before completing."
    Soft IrpBadReturn "irp-bad-return" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x225 ["routine", "IRP", "device"]
        "A dispatch routine returned 0xFFFFFFFF."
        "The variable that is returned was never set."
    Soft IrpPendingNotMarked "irp-pending-not-marked" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x23D ["routine", "IRP", "device"]
        "A dispatch routine returned STATUS_PENDING without marking the IRP pending."
        "IoMarkIrpPending before anything else can complete the IRP."
    Soft IrpMarkedNotPending "irp-marked-not-pending" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x23E ["routine", "IRP", "device"]
        "A dispatch routine marked the IRP pending and returned another status than STATUS_PENDING."
        "After IoMarkIrpPending only STATUS_PENDING can be returned, also when the IRP is complete by then."
    Soft IrpPendingNotPropagated "irp-pending-not-propagated" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x228 ["routine", "IRP", "device"]
        "A completion routine found PendingReturned set and did not mark the IRP pending."
        "`if (Irp->PendingReturned) IoMarkIrpPending(Irp);` in every completion routine that returns STATUS_SUCCESS."
    Soft IrpStatusMismatch "irp-status-mismatch" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x224 ["routine", "IRP", "device"]
        "A dispatch routine returned another status than it completed the IRP with."
        "Return the status that went into IoStatus.Status."
    Soft IrpNeverCompleted "irp-never-completed" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x226 ["routine", "IRP", "device"]
        "A dispatch routine returned without completing, forwarding or pending the IRP."
        "Every IRP is completed exactly once."
    Soft IrpCancelRoutineLeft "irp-cancel-routine-left" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x7 ["cancel routine", "IRP"]
        "The driver completed an IRP whose cancel routine was still set."
        "Clear it with IoSetCancelRoutine(Irp, NULL) before completing."
    Soft IrpInformation "irp-information" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x312 ["caller", "IRP", "device"]
        "The driver reported more bytes of output than the buffer holds."
        "IoStatus.Information is the number of bytes written, at most the output length."
    Hard IrpStack "irp-stack" NO_MORE_IRP_STACK_LOCATIONS ["IRP"]
        "The driver passed an IRP on with no stack location left."
        "Allocate IRPs with the target's StackSize, and attach through IoAttachDeviceToDeviceStack."
    Soft IrpUnprepared "irp-unprepared" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x212 ["caller", "IRP", "device"]
        "The driver passed an IRP on whose next stack location it did not set up."
        "IoCopyCurrentIrpStackLocationToNext or IoSkipCurrentIrpStackLocation before IoCallDriver."
    Soft IrpSkipCompletion "irp-skip-with-completion" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x206 ["caller", "IRP", "device"]
        "The driver set a completion routine on its own stack location, which belongs to the driver above."
        "With a completion routine use IoCopyCurrentIrpStackLocationToNext, not IoSkipCurrentIrpStackLocation."
    Soft IrpForwardedCancelable "irp-forwarded-cancelable" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x203 ["caller", "IRP", "device"]
        "The driver passed an IRP on while its own cancel routine was set."
        "IoSetCancelRoutine(Irp, NULL) before IoCallDriver."
    Soft IrpFreedInFlight "irp-freed-in-flight" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x20B ["caller", "IRP", "device"]
        "The driver freed an IRP that another driver still works on."
        "Free it in the completion routine, or after it has run."
    Soft IrpFreeThreaded "irp-free-threaded" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x20C ["caller", "IRP", "device"]
        "The driver freed an IRP that the I/O manager frees: one of IoBuild…Request, or a request of a client."
        "Complete it instead."
    Soft IrpFreedAsPool "irp-freed-as-pool" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x105 ["IRP"]
        "The driver freed an IRP with ExFreePool."
        "IoFreeIrp frees what IoAllocateIrp allocated."
    Soft CancelIgnored "cancel-ignored" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x135 ["IRP", "milliseconds allowed"]
        "A request was cancelled and did not complete."
        "Set a cancel routine before marking a request pending, and complete the request in it."
    Soft IrpHandlerMissing "irp-handler-missing" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x21F ["driver", "0", "major function"]
        "The driver has an AddDevice routine and no dispatch routine for plug-and-play, power or system-control IRPs, which it has to pass on."
        "Set a dispatch routine for IRP_MJ_PNP, IRP_MJ_POWER and IRP_MJ_SYSTEM_CONTROL that at least passes them on."
    Soft IrpLeft "irp-left" DRIVER_VERIFIER_DETECTED_VIOLATION []
        "The driver unloaded and left an IRP that it allocated."
        "IoFreeIrp every IRP the driver allocated."
    Soft DeviceDeletedAttached "device-deleted-attached" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x201 ["caller", "0", "device"]
        "The driver deleted a device that is still attached to another one."
        "IoDetachDevice before IoDeleteDevice."
    Soft DeviceNotAttached "device-not-attached" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x202 ["caller", "0", "device"]
        "The driver detached from a device that nothing is attached to."
        "Detach once, from the device that IoAttachDeviceToDeviceStack returned."
}
Objects {
    Soft TimerFreed "timer-freed" TIMER_OR_DPC_INVALID / 0x0 ["timer", "block", "end of the block"]
        "The driver freed memory that holds a timer which is still set."
        "Cancel the timer, and flush its DPC, before freeing."
    Soft DpcFreed "dpc-freed" TIMER_OR_DPC_INVALID / 0x1 ["DPC", "block", "end of the block"]
        "The driver freed memory that holds a DPC which is still queued."
        "Flush DPCs before freeing."
    Soft LookasideFreed "lookaside-freed" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xCC ["lookaside list", "block", "bytes"]
        "The driver freed memory that holds a lookaside list."
        "Delete the list before freeing: the kernel keeps all lookaside lists in a list."
    Hard WaitedFreed "waited-object-freed" DRIVER_CAUGHT_MODIFYING_FREED_POOL ["object", "block", "bytes"]
        "The driver freed memory that holds an object which a thread waits for."
        "Wait until nobody waits: the kernel would write to the freed object's list of waiters."
    Soft LookasideInitializedTwice "lookaside-initialized-twice" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xCA ["lookaside list"]
        "The driver initialised a lookaside list that is initialised."
        "Initialise once, and delete before the memory is used anew."
    Soft LookasideUninitialized "lookaside-uninitialized" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xCB ["lookaside list"]
        "The driver deleted a lookaside list that is not initialised."
        "Delete once what was initialised."
    Soft WorkItemFreed "work-item-freed" WORKER_INVALID / 0x0 ["work item"]
        "The driver freed a work item that is queued."
        "Free it in its routine, or after that has run."
    Soft WorkItemQueued "work-item-queued-twice" WORKER_INVALID / 0x1 ["work item"]
        "The driver queued a work item that is queued already."
        "One work item is one piece of work: allocate another, or remember that it is queued."
    Soft ObjectReference "object-reference" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x3F ["object", "references: -1 dereferenced, 1 referenced"]
        "The driver dereferenced an object more often than it referenced it."
        "Pair every reference with one dereference."
    Hard ObjectInvalid "object-invalid" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x3F ["address"]
        "The driver passed something as an object that is none, or no longer."
        "Keep a reference for as long as the pointer is kept."
    Soft BadHandle "bad-handle" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x3C ["handle", "object type"]
        "The driver used a handle that is not open."
        "Close once, and use only while open."
    Soft NullHandle "null-handle" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xF5 ["handle", "object type"]
        "The driver used a null handle."
        "Check the status of the call that should have opened it."
    Soft UserHandle "user-handle" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xF6 ["handle", "process", "caller"]
        "The driver opened a handle without OBJ_KERNEL_HANDLE in a user's process, and used it as the kernel's: the user can close or replace it."
        "OBJ_KERNEL_HANDLE in every OBJECT_ATTRIBUTES whose handle the driver keeps."
    Soft HandleTypeUnchecked "handle-type-unchecked" DRIVER_VERIFIER_DETECTED_VIOLATION ["handle", "caller"]
        "The driver referenced a user's handle without saying which type of object it has to be."
        "Pass *IoFileObjectType, *PsProcessType … to ObReferenceObjectByHandle."
    Soft DpcUninitialized "dpc-uninitialized" DRIVER_IRQL_NOT_LESS_OR_EQUAL ["DPC"]
        "The driver queued a DPC that was not initialised: it has no routine. The DPC is not queued."
        "KeInitializeDpc before the DPC is queued, or given to a timer."
    Soft DispatcherUninitialized "dispatcher-uninitialized" DRIVER_IRQL_NOT_LESS_OR_EQUAL ["object"]
        "The driver used an event, semaphore, mutex or timer that was not initialised: its list of waiters is none."
        "KeInitializeEvent, …Semaphore, …Mutex or …Timer once, before the first use."
    Soft SemaphoreLimit "semaphore-limit" KMODE_EXCEPTION_NOT_HANDLED / 0xC0000047 ["caller", "semaphore", "limit"]
        "The driver released a semaphore beyond its limit, outside any __try block: Windows raises STATUS_SEMAPHORE_LIMIT_EXCEEDED. The semaphore is left as it is."
        "Release as often as was acquired, or initialise it with a higher limit."
    Hard BadObject "bad-object" DRIVER_VERIFIER_DETECTED_VIOLATION ["object"]
        "The driver passed an object of the wrong kind, or one not initialised."
        "Initialise the object, and pass the kind the function documents."
    Soft DeviceLeft "device-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS []
        "The driver unloaded and left a device object behind."
        "Delete every device that was created."
    Soft SymbolicLinkLeft "symbolic-link-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS []
        "The driver unloaded and left a symbolic link behind."
        "Delete every symbolic link that was created."
    Soft TimerLeft "timer-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS []
        "The driver unloaded with a timer set."
        "Cancel timers on unload."
    Soft DpcLeft "dpc-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS []
        "The driver unloaded with a DPC queued."
        "KeFlushQueuedDpcs after the last source of DPCs is gone."
    Soft WorkItemLeft "work-item-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS []
        "The driver unloaded and left a work item allocated or queued."
        "Wait for work items and free them on unload."
    Soft ThreadLeft "thread-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS []
        "The driver unloaded while a thread it started was running."
        "Tell the thread to end and wait for it."
    Soft HandleLeft "handle-left" DRIVER_VERIFIER_DETECTED_VIOLATION []
        "The driver unloaded and left a kernel handle open."
        "ZwClose every handle."
    Soft ReferenceLeft "reference-left" DRIVER_VERIFIER_DETECTED_VIOLATION []
        "The driver unloaded and kept a reference to an object."
        "Dereference every object that was referenced."
    Soft CountersLeft "counters-left" DRIVER_VERIFIER_DETECTED_VIOLATION []
        "The driver unloaded and kept hardware performance counters reserved."
        "HalFreeHardwareCounters on unload."
    Soft LookasideLeft "lookaside-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS []
        "The driver unloaded and left a lookaside list."
        "Delete every lookaside list."
    Soft ResourceLeft "resource-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS []
        "The driver unloaded and left an executive resource."
        "ExDeleteResourceLite every resource."
    Soft WmiLeft "wmi-left" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xDA ["driver", "callback or device"]
        "The driver unloaded and left a registration with WMI."
        "IoWMIRegistrationControl(…, WMIREG_ACTION_DEREGISTER) on unload."
    Soft EtwLeft "etw-left" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xDD ["registration"]
        "The driver unloaded and is still registered as a provider of events."
        "EtwUnregister on unload, and when DriverEntry fails."
    Soft EtwHandle "etw-handle" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xDC ["registration"]
        "The driver passed EtwUnregister something that EtwRegister did not give, or that it has withdrawn already."
        "Withdraw once what was registered, and set the handle to zero."
    Soft ShutdownLeft "shutdown-notification-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS []
        "The driver unloaded and is still to be told of the shutdown."
        "IoUnregisterShutdownNotification before deleting the device."
    Soft RemoveLockLeft "remove-lock-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS []
        "The driver unloaded, or deleted the device, with a remove lock acquired."
        "IoReleaseRemoveLock on every path."
    Soft ProcessLeftAttached "process-left-attached" INVALID_PROCESS_DETACH_ATTEMPT []
        "The driver unloaded and left a thread attached to a process."
        "KeUnstackDetachProcess on every path."
    Soft InterruptLeft "interrupt-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS []
        "The driver unloaded with an interrupt connected."
        "IoDisconnectInterrupt every interrupt, and take the profile handler back, on unload."
    Soft FootprintGrowth "footprint-growth" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x60 []
        "Each load and unload of the driver leaves the machine holding more."
        "Give back on unload everything that was taken since DriverEntry."
    Soft RegistrationLeft "registration-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS []
        "The driver unloaded and left a callback registered, or something of its own that the kernel keeps track of."
        "Unregister every callback, and give back every entry."
    Soft BugCheckCallbackLeft "bug-check-callback-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS []
        "The driver unloaded and left a routine for bug checks registered: the next stop of the system calls code that is gone."
        "KeDeregisterBugCheckReasonCallback, or KeDeregisterBugCheckCallback, on unload."
}
Memory {
    Hard BugCheck "driver-bugcheck" MANUALLY_INITIATED_CRASH ["of the driver's own", "of the driver's own", "of the driver's own", "of the driver's own"]
        "The driver itself called KeBugCheckEx."
        "Read its parameters; a Rust driver does so on panic."
    Soft BugCheckCallbackFailed "bug-check-callback-failed" DRIVER_VERIFIER_DETECTED_VIOLATION ["record", "reason", "instruction"]
        "The machine had stopped, and a routine of the driver for bug checks failed: on Windows there may be no dump then."
        "It runs at HIGH_LEVEL with all else standing still: touch nonpaged memory only, take no lock, give no more than is allowed."
    Hard PageFault "page-fault" PAGE_FAULT_IN_NONPAGED_AREA ["address", "0 read, 1 write, 8 execute", "instruction", "IRQL"]
        "The driver touched an address where nothing is mapped."
        "Check where the pointer comes from: freed, never set, or computed from unchecked input."
    Hard NullPointer "null-pointer" SYSTEM_SERVICE_EXCEPTION / 0xC0000005 ["instruction", "address", "IRQL"]
        "The driver touched an address near zero."
        "A pointer was used before it was set, or after a failed call."
    Hard AccessViolation "access-violation" KMODE_EXCEPTION_NOT_HANDLED / 0xC0000005 ["instruction"]
        "The driver touched a non-canonical address."
        "The pointer was overwritten, or read from uninitialised memory."
    Hard WriteReadOnly "write-read-only" ATTEMPTED_WRITE_TO_READONLY_MEMORY ["address", "0 read, 1 write, 8 execute", "instruction", "IRQL"]
        "The driver wrote to a read-only section of its image."
        "Constants and code can't be changed; make the data writable if it is data."
    Hard ExecuteNoExecute "execute-no-execute" ATTEMPTED_EXECUTE_OF_NOEXECUTE_MEMORY ["address", "0 read, 1 write, 8 execute", "instruction", "IRQL"]
        "The driver jumped to memory that is not code."
        "A function pointer was overwritten, never set, or points to data."
    Hard IllegalInstruction "illegal-instruction" KMODE_EXCEPTION_NOT_HANDLED / 0xC000001D ["instruction"]
        "The driver executed an instruction the processor refuses."
        "An unreachable point was reached, or code was overwritten."
    Hard PrivilegedInstruction "privileged-instruction" KMODE_EXCEPTION_NOT_HANDLED / 0xC0000096 ["instruction", "register", "value"]
        "The driver executed a privileged instruction for which the lab has no such register or device."
        "Check the register number against what the processor enumerates."
    Hard DivideError "divide-error" UNEXPECTED_KERNEL_MODE_TRAP / 0x0 ["instruction"]
        "The driver divided by zero, or the quotient overflowed."
        "Check the divisor."
    Hard Breakpoint "breakpoint" KMODE_EXCEPTION_NOT_HANDLED / 0x80000003 ["instruction"]
        "The driver hit a breakpoint with no debugger attached."
        "Remove the breakpoint or the failed assertion behind it."
    Hard FastFail "fast-fail" KERNEL_SECURITY_CHECK_FAILURE ["FAST_FAIL code", "instruction"]
        "The driver failed fast (int 29h): a corrupted list, stack cookie or abort."
        "The first parameter is the FAST_FAIL code."
    Hard StackOverflow "stack-overflow" UNEXPECTED_KERNEL_MODE_TRAP / 0x8 ["address", "instruction"]
        "The driver ran off the end of its kernel stack."
        "Kernel stacks are 24 KiB: move large locals to pool, end recursion."
    Hard SystemCall "system-call" KMODE_EXCEPTION_NOT_HANDLED / 0xC0000096 ["instruction"]
        "The driver executed a system-call instruction."
        "Drivers call the kernel's exports, never its user-mode gate."
    Hard UnhandledException "unhandled-exception" KMODE_EXCEPTION_NOT_HANDLED ["exception code", "instruction", "of the exception", "of the exception"]
        "An exception was raised that no handler of the driver wants."
        "Put calls that raise (ProbeForRead, MmProbeAndLockPages, ExRaiseStatus …) into a __try block."
    Soft UserMemoryUnprobed "user-memory-unprobed" DRIVER_VERIFIER_DETECTED_VIOLATION ["address", "instruction"]
        "The driver touched a user program's buffer by an address that it neither probed nor locked."
        "ProbeForRead or ProbeForWrite first, or lock the pages with MmProbeAndLockPages: the address may be a kernel one."
    Soft UserMemoryUnguarded "user-memory-unguarded" DRIVER_VERIFIER_DETECTED_VIOLATION ["address", "instruction"]
        "The driver touched a user program's memory outside any __try block."
        "Guard every access: the program can unmap the memory at any time."
    Soft PagedMemoryAtDispatch "paged-memory-at-dispatch" DRIVER_IRQL_NOT_LESS_OR_EQUAL ["address", "IRQL", "0 read, 1 write, 8 execute", "instruction"]
        "The driver touched paged memory at DISPATCH_LEVEL or above."
        "Use nonpaged pool, and keep code that runs at DISPATCH_LEVEL out of PAGE sections."
    Soft MdlMappedUnlocked "mdl-mapped-unlocked" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xB3 ["MDL", "MDL flags", "missing MDL flags"]
        "The driver mapped an MDL whose pages are not locked."
        "MmProbeAndLockPages, or MmBuildMdlForNonPagedPool, before mapping."
    Soft MdlUnlockedTwice "mdl-unlocked-twice" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x7C ["MDL", "MDL flags"]
        "The driver unlocked an MDL whose pages are not locked."
        "Unlock once what MmProbeAndLockPages locked."
    Soft MdlUnlockNonpaged "mdl-unlock-nonpaged" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x7D ["MDL", "MDL flags"]
        "The driver unlocked an MDL of nonpaged pool, which is never locked."
        "MmBuildMdlForNonPagedPool needs no MmUnlockPages."
    Soft MdlLockedTwice "mdl-locked-twice" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xB0 ["MDL", "MDL flags", "incorrect MDL flags"]
        "The driver locked an MDL whose pages are locked already, or are nonpaged pool."
        "Lock once."
    Soft MdlFreedLocked "mdl-freed-locked" DRIVER_LEFT_LOCKED_PAGES_IN_PROCESS ["caller", "0", "MDL", "pages"]
        "The driver freed an MDL whose pages are locked."
        "MmUnlockPages before IoFreeMdl."
    Soft MdlFreedMapped "mdl-freed-mapped" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xB8 ["MDL", "MDL flags"]
        "The driver freed an MDL that is mapped."
        "MmUnmapLockedPages before IoFreeMdl."
    Soft MdlPagedPool "mdl-of-paged-pool" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x7F ["IRQL", "MDL", "MDL flags"]
        "The driver called MmBuildMdlForNonPagedPool for paged pool."
        "Lock paged memory with MmProbeAndLockPages."
    Soft MdlMustSucceed "mdl-map-must-succeed" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x82 ["MDL", "MDL flags"]
        "The driver mapped an MDL with BugCheckOnFailure set: the system stops when it is short of addresses."
        "Pass FALSE and handle NULL."
    Soft MdlLeft "mdl-left" DRIVER_LEFT_LOCKED_PAGES_IN_PROCESS []
        "The driver unloaded and left a memory descriptor list, or pages locked or mapped by one."
        "Unmap, unlock and free every MDL."
    Soft MappingInvalid "mapping-invalid" SYSTEM_PTE_MISUSE ["address", "bytes"]
        "The driver unmapped device memory that is not mapped so."
        "MmUnmapIoSpace once, with the address and length of MmMapIoSpace."
    Soft MappingLeft "mapping-left" SYSTEM_PTE_MISUSE []
        "The driver unloaded and left device memory mapped."
        "MmUnmapIoSpace every mapping."
    Soft DeviceRegister "device-register" WHEA_UNCORRECTABLE_ERROR ["address", "physical address", "bytes", "0 read, 1 write"]
        "The driver accessed device memory where the device has no register, or one of another width or kind."
        "Access each register with the offset, width and direction of the device's manual."
    Soft MemoryOverlap "memory-overlap" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xF0 ["destination", "source", "bytes"]
        "The driver copied between buffers that overlap, with a function that does not allow it."
        "Use RtlMoveMemory."
    Soft StringMalformed "string-malformed" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xE4 ["caller", "string"]
        "The driver passed a UNICODE_STRING that is longer than its buffer, or not of whole characters."
        "Length and MaximumLength are bytes: even, and Length at most MaximumLength."
}
Time {
    Hard WaitForever "wait-forever" THREAD_STUCK_IN_DEVICE_DRIVER ["IRP or routine"]
        "A thread waits for an object that nothing left in the system can signal."
        "Check that every path that ends the work signals the object."
    Hard Hang "hang" THREAD_STUCK_IN_DEVICE_DRIVER ["instruction"]
        "The driver ran for longer than the limit without giving control back."
        "Look for a loop that waits for something only another processor or interrupt can change."
    Hard DpcWatchdog "dpc-watchdog" DPC_WATCHDOG_VIOLATION / 0x0 ["milliseconds", "milliseconds allowed", "instruction"]
        "A DPC routine ran for longer than the limit."
        "Windows asks for at most 100 microseconds: hand long work to a work item or a thread."
    Hard IsrTooLong "isr-too-long" DPC_WATCHDOG_VIOLATION / 0x0 ["milliseconds", "milliseconds allowed", "instruction"]
        "An interrupt routine ran for longer than the limit."
        "Windows asks for at most 25 microseconds: leave the work to a DPC."
    Hard IrqlTooLong "irql-too-long" DPC_WATCHDOG_VIOLATION / 0x1 ["milliseconds allowed", "instruction"]
        "The driver stayed at DISPATCH_LEVEL or above for longer than the limit."
        "Lower the IRQL between pieces of long work."
    Hard SpinLockTooLong "spin-lock-held-too-long" DPC_WATCHDOG_VIOLATION / 0x1 ["milliseconds allowed", "instruction", "lock"]
        "The driver held a spin lock for longer than the limit."
        "Windows asks for at most 25 microseconds: do the work outside the lock."
}
Security {
    Soft UninitializedOutput "uninitialized-output" DRIVER_VERIFIER_DETECTED_VIOLATION ["IRP", "first byte", "bytes"]
        "The driver returned bytes to a user program that it never wrote: what the memory held before."
        "Zero the output, its padding too, before filling it; report only what was written."
    Soft KernelAddressOutput "kernel-address-output" DRIVER_VERIFIER_DETECTED_VIOLATION ["IRP", "place in the output", "address"]
        "The driver returned an address of the kernel to a user program."
        "Hand out an index or handle of the driver's own."
    Soft AnyAccessPrivileged "any-access-privileged" DRIVER_VERIFIER_DETECTED_VIOLATION ["control code", "instruction", "device"]
        "A request with FILE_ANY_ACCESS, to a device that every user may open, made the driver write a model-specific register or use a port, or ask for device memory: any program can."
        "FILE_WRITE_ACCESS in the control code, and a security descriptor that names who may open the device."
}
Integrity {
    Soft SectionWritableExecutable "section-writable-executable" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x2003 ["image", "section header", "section name"]
        "The image has a section that is both writable and executable."
        "Keep code and data in sections of their own; memory integrity refuses such a driver."
    Soft SectionUnaligned "section-unaligned" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x2004 ["image", "section header", "section name"]
        "The image has a section that does not start at a page."
        "Link with a section alignment of 4096 or more; memory integrity refuses such a driver."
    Soft ImportsExecutable "imports-in-code" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x2005 ["image", "import address table", "section name"]
        "The import address table of the image is in an executable section."
        "Don't merge .idata or .rdata into .text; memory integrity refuses such a driver."
}
Lab {
    Hard UnknownImport "unknown-import" DRIVER_VERIFIER_DETECTED_VIOLATION ["caller", "number of the import"]
        "The driver called an import that the lab does not provide."
        "`drydock inspect` lists what is lacking."
    Hard WorkerLost "worker-lost" DRIVER_VERIFIER_DETECTED_VIOLATION ["signal or exit code"]
        "The process that ran the driver died or went silent: the driver destroyed the lab's own memory, or the lab failed."
        "Replay the case; the parameters are the signal or exit code. A wild write is the likeliest cause."
    Hard HostFault "lab-internal" DRIVER_VERIFIER_DETECTED_VIOLATION []
        "The lab itself failed while serving the driver; the driver may be innocent."
        "Report it with the driver and the command line."
}
}
