//! Thunks: what a driver's imports are bound to.
//!
//! One per export, made once per process: it loads the mask of IRQLs at
//! which the export may be called, its index and its implementation, and
//! jumps to [`asm::thunk`]. Imports that nobody provides get thunks from a
//! pool, so that the report can say which one was called.
#![expect(unsafe_code, reason = "writes machine code")]

use std::collections::HashMap;
use std::ptr;
use std::sync::OnceLock;

use lab_verifier::RuleId;
use nt::{Contract, Export};

use crate::machine::current;
use crate::{asm, exports, memory};

/// Unknown imports that one image may have.
pub(crate) const MAX_UNKNOWN_IMPORTS: usize = 1024;
/// Indices from here on are unknown imports.
pub(crate) const UNKNOWN: u64 = 0x1_0000;
/// Bytes of a thunk.
const THUNK: usize = 48;

/// All thunks of the process.
pub(crate) struct Thunks {
    exports: Vec<Export>,
    by_name: HashMap<&'static str, usize>,
    code: u64,
    len: usize,
}

// SAFETY: the table is written once, before it is shared; the addresses in it
// are of functions and of code that is never unmapped.
unsafe impl Send for Thunks {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Thunks {}

/// The thunks, made at first use.
pub(crate) fn thunks() -> &'static Thunks {
    static THUNKS: OnceLock<Thunks> = OnceLock::new();
    THUNKS.get_or_init(|| Thunks::new(asm::thunk as *const (), asm::variadic_thunk as *const ()))
}

/// Thunks that take the kernel's lock: for machines that several host threads run.
pub(crate) fn locking_thunks() -> &'static Thunks {
    static THUNKS: OnceLock<Thunks> = OnceLock::new();
    THUNKS.get_or_init(|| {
        let variadic = asm::locking_variadic_thunk as *const ();
        Thunks::new(asm::locking_thunk as *const (), variadic)
    })
}

impl Thunks {
    fn new(fixed: *const (), variadic: *const ()) -> Self {
        let named = exports::all().count();
        let exports: Vec<Export> = exports::all()
            .chain(exports::hal_dispatch::services())
            .collect();
        let by_name = exports[..named]
            .iter()
            .enumerate()
            .map(|(index, export)| (export.contract.name, index))
            .collect();
        let count = exports.len() + MAX_UNKNOWN_IMPORTS;
        let len = count * THUNK;
        let mut code = Vec::with_capacity(len);
        for (index, export) in exports.iter().enumerate() {
            let common = if export.contract.variadic {
                variadic
            } else {
                fixed
            };
            emit(
                &mut code,
                export.contract.irql_mask,
                index as u64,
                export.address as u64,
                common,
            );
        }
        for unknown in 0..MAX_UNKNOWN_IMPORTS as u64 {
            let target = unknown_import as *const () as u64;
            emit(&mut code, u16::MAX, UNKNOWN + unknown, target, fixed);
        }
        let code = publish(&code);
        Self {
            exports,
            by_name,
            code,
            len,
        }
    }

    /// Address to bind an import of the kernel to, if the lab provides it.
    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        let index = *self.by_name.get(name)?;
        if name == "__chkstk" {
            // Its argument is in rax, and it keeps every register: a thunk would not.
            return Some(asm::check_stack as *const () as u64);
        }
        Some(self.code + (index * THUNK) as u64)
    }

    /// Address of the n-th service without a name.
    pub(crate) fn service(&self, n: usize) -> u64 {
        self.code + ((self.by_name.len() + n) * THUNK) as u64
    }

    /// Address to bind the n-th unknown import of an image to.
    pub(crate) fn unknown(&self, n: usize) -> u64 {
        self.code + ((self.exports.len() + n) * THUNK) as u64
    }

    /// Contract of an export by its index, `None` for an unknown import.
    pub(crate) fn contract(&self, index: u64) -> Option<&'static Contract> {
        Some(self.exports.get(usize::try_from(index).ok()?)?.contract)
    }

    /// Addresses of all thunks.
    pub(crate) fn range(&self) -> std::ops::Range<u64> {
        self.code..self.code + self.len as u64
    }

    /// Whether an address is in a thunk.
    pub(crate) fn contains(&self, address: u64) -> bool {
        self.range().contains(&address)
    }
}

/// `mov eax, mask; mov r10d, index; mov r11, target; jmp [rip+0]; common`.
fn emit(code: &mut Vec<u8>, mask: u16, index: u64, target: u64, common: *const ()) {
    let start = code.len();
    code.push(0xB8);
    code.extend(u32::from(mask).to_le_bytes());
    code.extend([0x41, 0xBA]);
    code.extend(&index.to_le_bytes()[..4]);
    code.extend([0x49, 0xBB]);
    code.extend(target.to_le_bytes());
    code.extend([0xFF, 0x25, 0, 0, 0, 0]);
    code.extend((common as u64).to_le_bytes());
    code.resize(start + THUNK, 0xCC);
}

/// Maps code for good.
fn publish(code: &[u8]) -> u64 {
    let Ok(map) = memory::map(code.len(), memory::READ_WRITE) else {
        panic!("cannot map {} bytes for thunks", code.len())
    };
    // SAFETY: the mapping is new, writable and as long as the code.
    unsafe { ptr::copy_nonoverlapping(code.as_ptr(), map.cast(), code.len()) };
    // SAFETY: the mapping is ours; from here on it is only executed.
    let sealed =
        unsafe { libc::mprotect(map.cast(), code.len(), libc::PROT_READ | libc::PROT_EXEC) };
    assert!(sealed == 0, "cannot make thunks executable");
    map as u64
}

/// Exports whose misuse has a rule of its own, which they check.
const CHECK_THEMSELVES: [&str; 9] = [
    "ExAllocatePool",
    "ExAllocatePool2",
    "ExAllocatePoolWithTag",
    "ExFreePool",
    "ExFreePoolWithTag",
    "KeAcquireSpinLockAtDpcLevel",
    "KeAcquireSpinLockRaiseToDpc",
    "KeReleaseSpinLock",
    "KeReleaseSpinLockFromDpcLevel",
];

/// What [`asm::thunk`] calls for a call whose IRQL the contract forbids, before it makes the call.
pub(crate) unsafe extern "efiapi" fn contract_violation() {
    let machine = current();
    machine.enter_kernel();
    let irql = machine.irql();
    let contract = thunks().contract(machine.slot().api);
    let (name, legal) = contract.map_or(("?", "?"), |contract| (contract.name, contract.irql));
    if CHECK_THEMSELVES.contains(&name) {
        return;
    }
    let (call_site, irql_word) = (machine.call_site(), u64::from(irql));
    let (rule, parameters) = match name.starts_with("Zw") {
        true => (RuleId::ZwIrql, [0, call_site, irql_word, 0]),
        false => (RuleId::IrqlContract, [0, irql_word, call_site, 0]),
    };
    machine.report(
        rule,
        parameters,
        format!("{name} called at IRQL {irql}; its contract is IRQL {legal}"),
    );
    machine.leave_kernel();
}

/// Where a call to an import lands that nobody provides.
unsafe extern "efiapi" fn unknown_import() -> ! {
    let machine = current();
    let index = machine.slot().api - UNKNOWN;
    let call_site = machine.call_site();
    let name = machine.unknown_import_name(call_site, index);
    machine.violate(
        RuleId::UnknownImport,
        [call_site, index, 0, 0],
        format!("call to {name}, which the lab does not provide"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_export_has_exactly_one_thunk() {
        let declared: Vec<_> = nt::contracts().map(|contract| contract.name).collect();
        let thunks = thunks();
        assert_eq!(declared.len(), thunks.by_name.len());
        for name in declared {
            assert!(thunks.address(name).is_some(), "{name}");
        }
        let distinct: std::collections::HashSet<_> = nt::contracts().map(|c| c.name).collect();
        assert_eq!(
            distinct.len(),
            thunks.by_name.len(),
            "a name is declared twice"
        );
        assert!(thunks.address("NoSuchExport").is_none());
    }
}
