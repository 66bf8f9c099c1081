//! The table of rules.

use nt::stop::{self, StopCode};

/// One rule: what is checked, how a violation is reported, what to do.
#[derive(Debug)]
pub struct Rule {
    /// Its identity.
    pub id: RuleId,
    /// Kebab-case name, as printed and as used on command lines.
    pub name: &'static str,
    /// The stop code that Windows reports for it.
    pub stop: StopCode,
    /// The first parameter that names the rule under that stop code, where
    /// Windows documents one.
    pub subcode: Option<u64>,
    /// What it means that the rule is broken.
    pub meaning: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

macro_rules! rules {
    ($($id:ident $name:literal $stop:ident $(/ $subcode:literal)? : $meaning:literal; $remedy:literal)*) => {
        /// Identity of a rule.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u8)]
        pub enum RuleId { $(
            #[doc = $meaning]
            $id,
        )* }

        /// Every rule, in the order of [`RuleId`].
        pub static RULES: &[Rule] = &[$(
            Rule {
                id: RuleId::$id,
                name: $name,
                stop: stop::$stop,
                subcode: rules!(@subcode $($subcode)?),
                meaning: $meaning,
                remedy: $remedy,
            },
        )*];
    };
    (@subcode) => { None };
    (@subcode $subcode:literal) => { Some($subcode) };
}

rules! {
    BugCheck "driver-bugcheck" MANUALLY_INITIATED_CRASH:
        "The driver itself called KeBugCheckEx.";
        "Read its parameters; a Rust driver does so on panic."
    PageFault "page-fault" PAGE_FAULT_IN_NONPAGED_AREA:
        "The driver touched an address where nothing is mapped.";
        "Check where the pointer comes from: freed, never set, or computed from unchecked input."
    NullPointer "null-pointer" SYSTEM_SERVICE_EXCEPTION / 0xC0000005:
        "The driver touched an address near zero.";
        "A pointer was used before it was set, or after a failed call."
    AccessViolation "access-violation" KMODE_EXCEPTION_NOT_HANDLED / 0xC0000005:
        "The driver touched a non-canonical address.";
        "The pointer was overwritten, or read from uninitialised memory."
    WriteReadOnly "write-read-only" ATTEMPTED_WRITE_TO_READONLY_MEMORY:
        "The driver wrote to a read-only section of its image.";
        "Constants and code can't be changed; make the data writable if it is data."
    ExecuteNoExecute "execute-no-execute" ATTEMPTED_EXECUTE_OF_NOEXECUTE_MEMORY:
        "The driver jumped to memory that is not code.";
        "A function pointer was overwritten, never set, or points to data."
    IllegalInstruction "illegal-instruction" KMODE_EXCEPTION_NOT_HANDLED / 0xC000001D:
        "The driver executed an instruction the processor refuses.";
        "An unreachable point was reached, or code was overwritten."
    PrivilegedInstruction "privileged-instruction" KMODE_EXCEPTION_NOT_HANDLED / 0xC0000096:
        "The driver executed a privileged instruction for which the lab has no such register or device.";
        "Check the register number against what the processor enumerates."
    DivideError "divide-error" UNEXPECTED_KERNEL_MODE_TRAP / 0x0:
        "The driver divided by zero, or the quotient overflowed.";
        "Check the divisor."
    Breakpoint "breakpoint" KMODE_EXCEPTION_NOT_HANDLED / 0x80000003:
        "The driver hit a breakpoint with no debugger attached.";
        "Remove the breakpoint or the failed assertion behind it."
    FastFail "fast-fail" KERNEL_SECURITY_CHECK_FAILURE:
        "The driver failed fast (int 29h): a corrupted list, stack cookie or abort.";
        "The first parameter is the FAST_FAIL code."
    StackOverflow "stack-overflow" UNEXPECTED_KERNEL_MODE_TRAP / 0x8:
        "The driver ran off the end of its kernel stack.";
        "Kernel stacks are 24 KiB: move large locals to pool, end recursion."
    SystemCall "system-call" KMODE_EXCEPTION_NOT_HANDLED / 0xC0000096:
        "The driver executed a system-call instruction.";
        "Drivers call the kernel's exports, never its user-mode gate."
    UnknownImport "unknown-import" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The driver called an import that the lab does not provide.";
        "`drydock inspect` lists what is lacking."
    PoolOverrun "pool-overrun" DRIVER_PAGE_FAULT_BEYOND_END_OF_ALLOCATION:
        "The driver touched memory past the end of a pool block.";
        "Check the length against the block's size."
    PoolUseAfterFree "pool-use-after-free" DRIVER_PAGE_FAULT_IN_FREED_SPECIAL_POOL:
        "The driver touched a pool block after freeing it.";
        "Find who still holds the pointer; the report names both call sites."
    PoolCorruption "pool-corruption" SPECIAL_POOL_DETECTED_MEMORY_CORRUPTION / 0x24:
        "Bytes around a pool block changed: it was written past its end.";
        "Check the lengths of writes to the block."
    PoolDoubleFree "pool-double-free" BAD_POOL_CALLER / 0x7:
        "The driver freed a pool block twice.";
        "Clear the pointer when freeing, or own it in one place."
    PoolBadFree "pool-bad-free" BAD_POOL_CALLER / 0x46:
        "The driver freed an address that is no pool block.";
        "Free exactly the address that the allocation returned."
    PoolWrongTag "pool-wrong-tag" BAD_POOL_CALLER / 0xA:
        "The driver freed a pool block with another tag than it was allocated with.";
        "Use one tag for both."
    PoolZeroBytes "pool-zero-bytes" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x0:
        "The driver allocated zero bytes of pool.";
        "Skip the allocation when the length is zero."
    PoolIrql "pool-irql" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1:
        "The driver allocated or freed paged pool above APC_LEVEL.";
        "Use nonpaged pool, or allocate before raising the IRQL."
    PoolLeak "pool-leak" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x62:
        "The driver unloaded without freeing pool.";
        "Free every block on unload and on every failing path of DriverEntry."
    UnhandledException "unhandled-exception" KMODE_EXCEPTION_NOT_HANDLED:
        "An exception was raised that no handler of the driver wants.";
        "Put calls that raise (ProbeForRead, MmProbeAndLockPages, ExRaiseStatus …) into a __try block."
    PoolUnderrun "pool-underrun" DRIVER_PAGE_FAULT_BEYOND_END_OF_ALLOCATION:
        "The driver touched memory before the start of a pool block.";
        "Check the offset against the block's start."
    UserMemoryUnprobed "user-memory-unprobed" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The driver touched a user program's buffer by an address that it neither probed nor locked.";
        "ProbeForRead or ProbeForWrite first, or lock the pages with MmProbeAndLockPages: the address may be a kernel one."
    UserMemoryUnguarded "user-memory-unguarded" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The driver touched a user program's memory outside any __try block.";
        "Guard every access: the program can unmap the memory at any time."
    PagedMemoryAtDispatch "paged-memory-at-dispatch" DRIVER_IRQL_NOT_LESS_OR_EQUAL:
        "The driver touched paged memory at DISPATCH_LEVEL or above.";
        "Use nonpaged pool, and keep code that runs at DISPATCH_LEVEL out of PAGE sections."
    IrqlContract "irql-contract" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The driver called a kernel function at an IRQL that its contract forbids.";
        "The report names the function and the IRQLs at which it may be called."
    IrqlRaiseBelow "irql-raise-below" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x30:
        "The driver raised the IRQL to a lower level than the current one.";
        "Raise to a level at or above the current one."
    IrqlLowerAbove "irql-lower-above" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x31:
        "The driver lowered the IRQL to a higher level than the current one.";
        "Lower to what the paired raise returned."
    IrqlChanged "irql-changed" IRQL_UNEXPECTED_VALUE:
        "A routine of the driver returned at another IRQL than it was called at.";
        "Pair every raise and lock with its lower and unlock on every path."
    WaitAtDispatch "wait-at-dispatch" ATTEMPTED_SWITCH_FROM_DPC:
        "The driver waited at DISPATCH_LEVEL or above, where a thread can't be switched.";
        "Wait at APC_LEVEL or below, or pass a timeout of zero."
    SpinLockRecursive "spin-lock-recursive" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1001:
        "The driver acquired a spin lock that its processor holds already.";
        "A spin lock is not recursive: release it first, or pass the guard down."
    SpinLockNotOwned "spin-lock-not-owned" SPIN_LOCK_NOT_OWNED:
        "The driver released a spin lock that its processor does not hold.";
        "Release once, on the processor that acquired it."
    Deadlock "deadlock" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x1000:
        "Every processor waits for something that none of them can bring about.";
        "The report names who holds what."
    WaitForever "wait-forever" THREAD_STUCK_IN_DEVICE_DRIVER:
        "A thread waits for an object that nothing left in the system can signal.";
        "Check that every path that ends the work signals the object."
    IrpCompletedTwice "irp-completed-twice" MULTIPLE_IRP_COMPLETE_REQUESTS:
        "The driver completed an IRP twice.";
        "After IofCompleteRequest the IRP belongs to the I/O manager."
    IrpBadStatus "irp-bad-status" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x6:
        "The driver completed an IRP with STATUS_PENDING, or with an invalid status.";
        "Set IoStatus.Status to the outcome before completing."
    IrpPendingMismatch "irp-pending-mismatch" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x21D:
        "The driver returned STATUS_PENDING without marking the IRP pending, or the reverse.";
        "IoMarkIrpPending and STATUS_PENDING go together."
    IrpStatusMismatch "irp-status-mismatch" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x21E:
        "A dispatch routine returned another status than it completed the IRP with.";
        "Return the status that went into IoStatus.Status."
    IrpNeverCompleted "irp-never-completed" THREAD_STUCK_IN_DEVICE_DRIVER:
        "A dispatch routine returned without completing or pending the IRP.";
        "Every IRP is completed exactly once."
    IrpCancelRoutineLeft "irp-cancel-routine-left" DRIVER_VERIFIER_IOMANAGER_VIOLATION / 0x7:
        "The driver completed an IRP whose cancel routine was still set.";
        "Clear it with IoSetCancelRoutine(Irp, NULL) before completing."
    IrpInformation "irp-information" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The driver reported more bytes of output than the buffer holds.";
        "IoStatus.Information is the number of bytes written, at most the output length."
    IrpStack "irp-stack" DRIVER_VERIFIER_IOMANAGER_VIOLATION:
        "The driver passed an IRP on with no stack location left.";
        "Allocate IRPs with the target's StackSize, and attach through IoAttachDeviceToDeviceStack."
    TimerFreed "timer-freed" TIMER_OR_DPC_INVALID / 0x0:
        "The driver freed memory that holds a timer which is still set.";
        "Cancel the timer, and flush its DPC, before freeing."
    DpcFreed "dpc-freed" TIMER_OR_DPC_INVALID / 0x1:
        "The driver freed memory that holds a DPC which is still queued.";
        "Flush DPCs before freeing."
    ObjectReference "object-reference" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The driver dereferenced an object that does not exist or has no reference left.";
        "Pair every reference with one dereference."
    BadHandle "bad-handle" DRIVER_VERIFIER_DETECTED_VIOLATION / 0xE0:
        "The driver used a handle that is not open.";
        "Close once, and use only while open."
    BadObject "bad-object" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The driver passed an object of the wrong kind, or one not initialised.";
        "Initialise the object, and pass the kind the function documents."
    DeviceLeft "device-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS:
        "The driver unloaded and left a device object behind.";
        "Delete every device that was created."
    SymbolicLinkLeft "symbolic-link-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS:
        "The driver unloaded and left a symbolic link behind.";
        "Delete every symbolic link that was created."
    TimerLeft "timer-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS:
        "The driver unloaded with a timer set.";
        "Cancel timers on unload."
    DpcLeft "dpc-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS:
        "The driver unloaded with a DPC queued.";
        "KeFlushQueuedDpcs after the last source of DPCs is gone."
    WorkItemLeft "work-item-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS:
        "The driver unloaded and left a work item allocated or queued.";
        "Wait for work items and free them on unload."
    ThreadLeft "thread-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS:
        "The driver unloaded while a thread it started was running.";
        "Tell the thread to end and wait for it."
    HandleLeft "handle-left" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The driver unloaded and left a kernel handle open.";
        "ZwClose every handle."
    ReferenceLeft "reference-left" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The driver unloaded and kept a reference to an object.";
        "Dereference every object that was referenced."
    CountersLeft "counters-left" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The driver unloaded and kept hardware performance counters reserved.";
        "HalFreeHardwareCounters on unload."
    MdlLeft "mdl-left" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The driver unloaded and left a memory descriptor list, or pages locked or mapped by one.";
        "Unmap, unlock and free every MDL."
    IrpLeft "irp-left" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The driver unloaded and left an IRP that it allocated.";
        "IoFreeIrp every IRP the driver allocated."
    MappingLeft "mapping-left" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The driver unloaded and left device memory mapped.";
        "MmUnmapIoSpace every mapping."
    RegistrationLeft "registration-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS:
        "The driver unloaded and left a callback registered, or a lock or list of its own that the kernel keeps track of.";
        "Unregister every callback and provider; delete every resource and lookaside list."
    InterruptLeft "interrupt-left" DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS:
        "The driver unloaded with an interrupt connected.";
        "IoDisconnectInterrupt every interrupt, and take the profile handler back, on unload."
    InsecureDevice "insecure-device" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "A device that user programs can open has no FILE_DEVICE_SECURE_OPEN, or no security descriptor of its own.";
        "Create it with FILE_DEVICE_SECURE_OPEN and a descriptor that names who may open it."
    CancelIgnored "cancel-ignored" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x135:
        "A request was cancelled and did not complete.";
        "Set a cancel routine before marking a request pending, and complete the request in it."
    FootprintGrowth "footprint-growth" DRIVER_VERIFIER_DETECTED_VIOLATION / 0x62:
        "Each load and unload of the driver leaves the machine holding more.";
        "Give back on unload everything that was taken since DriverEntry."
    WorkerLost "worker-lost" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The process that ran the driver died or went silent: the driver destroyed the lab's own memory, or the lab failed.";
        "Replay the case; the parameters are the signal or exit code. A wild write is the likeliest cause."
    HostFault "lab-internal" DRIVER_VERIFIER_DETECTED_VIOLATION:
        "The lab itself failed while serving the driver; the driver may be innocent.";
        "Report it with the driver and the command line."
    DpcWatchdog "dpc-watchdog" DPC_WATCHDOG_VIOLATION / 0x0:
        "A DPC routine ran for longer than the limit.";
        "Windows asks for at most 100 microseconds: hand long work to a work item or a thread."
    IsrTooLong "isr-too-long" DPC_WATCHDOG_VIOLATION / 0x0:
        "An interrupt routine ran for longer than the limit.";
        "Windows asks for at most 25 microseconds: leave the work to a DPC."
    IrqlTooLong "irql-too-long" DPC_WATCHDOG_VIOLATION / 0x1:
        "The driver stayed at DISPATCH_LEVEL or above for longer than the limit.";
        "Lower the IRQL between pieces of long work."
    SpinLockTooLong "spin-lock-held-too-long" DPC_WATCHDOG_VIOLATION / 0x1:
        "The driver held a spin lock for longer than the limit.";
        "Windows asks for at most 25 microseconds: do the work outside the lock."
    Hang "hang" THREAD_STUCK_IN_DEVICE_DRIVER:
        "The driver ran for longer than the limit without giving control back.";
        "Look for a loop that waits for something only another processor or interrupt can change."
}

impl RuleId {
    /// The table's entry.
    #[must_use]
    pub fn rule(self) -> &'static Rule {
        // The table and the enumeration come from one list, in one order.
        &RULES[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_finds_its_own_rule() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!(rule.id as usize, index);
            assert!(std::ptr::eq(rule.id.rule(), rule));
        }
    }

    #[test]
    fn names_are_unique_kebab_case_and_texts_are_sentences() {
        let mut names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
        for rule in RULES {
            assert!(
                rule.name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c == '-'),
                "{}",
                rule.name
            );
            assert!(
                rule.meaning.ends_with('.') && rule.remedy.ends_with('.'),
                "{}",
                rule.name
            );
        }
    }
}
