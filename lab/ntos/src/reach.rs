//! What requests that every user may send make a driver do to the hardware.

use iced_x86::Mnemonic;
use lab_verifier::RuleId;
use nt::base::UserMode;
use nt::io::FILE_ANY_ACCESS;
use nt::irp::{IRP, IRP_MJ_DEVICE_CONTROL};

use crate::guest::get;
use crate::locate::Raw;
use crate::machine::Machine;
use crate::security::{self, Privilege};
use crate::unwind::Registers;

/// `FILE_READ_ATTRIBUTES`: the least that a device can be opened with.
const FILE_READ_ATTRIBUTES: u32 = 0x80;

/// A request that any program can send: only the driver itself can refuse it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unchecked {
    code: u32,
    device: u64,
}

impl Machine {
    /// What is known of a request about to be dispatched if its code asks for no access, and every
    /// user may open its device.
    pub(crate) fn unchecked_request(&self, irp: *mut IRP) -> Option<Unchecked> {
        let stack = get!(irp, CurrentStackLocation).wrapping_sub(1);
        let is_control = get!(stack, MajorFunction) == IRP_MJ_DEVICE_CONTROL;
        if !is_control || get!(irp, RequestorMode) != UserMode {
            return None;
        }
        let code = get!(stack, Parameters.DeviceIoControl.IoControlCode);
        let file = get!(stack, FileObject);
        if code >> 14 & 3 != FILE_ANY_ACCESS || file.is_null() {
            return None;
        }
        let device = get!(file, DeviceObject) as u64;
        let objects = self.objects.borrow();
        let dacl = objects.get(device)?.security.as_ref().unwrap_or(&None);
        security::allows(dacl, Privilege::User, FILE_READ_ATTRIBUTES)
            .then_some(Unchecked { code, device })
    }

    /// The request under way on the running thread, if any program can send it.
    pub(crate) fn unchecked(&self) -> Option<Unchecked> {
        self.running
            .get()
            .and_then(|id| self.thread(id).unchecked.get())
    }

    /// Reports a kernel call that gives a request under way the hardware.
    pub(crate) fn judge_call(&self, what: &str) {
        if let Some(request) = self.unchecked() {
            let (parameters, what) = request.finding(self.call_site(), what);
            self.report(RuleId::AnyAccessPrivileged, parameters, what);
        }
    }

    /// For the fault handler: reports an instruction that gives a request under way the hardware.
    pub(crate) fn judge_instruction(&self, registers: &Registers) {
        let Some(request) = self.unchecked() else {
            return;
        };
        let Some(instruction) = self.decode(registers.rip) else {
            return;
        };
        let what = match instruction.mnemonic() {
            Mnemonic::Wrmsr => wrmsr(registers.gpr[1]),
            Mnemonic::In | Mnemonic::Out => format!("`{instruction}`"),
            _ => return,
        };
        let (parameters, what) = request.finding(registers.rip, &what);
        self.note(&Raw {
            rule: RuleId::AnyAccessPrivileged,
            parameters,
            what,
            registers: *registers,
            access: None,
            api: None,
            after_call: false,
            cpu: self.cpu_state(),
            thread: self.running.get(),
        });
    }

    /// The same for a patched `wrmsr` at `site`.
    pub(crate) fn judge_patched_wrmsr(&self, site: u64, register: u32) {
        if let Some(request) = self.unchecked() {
            let (parameters, what) = request.finding(site, &wrmsr(register.into()));
            let rule = RuleId::AnyAccessPrivileged;
            self.note(&self.at_site(rule, parameters, what, site));
        }
    }
}

fn wrmsr(rcx: u64) -> String {
    format!("wrmsr of register {:#x}", rcx & 0xFFFF_FFFF)
}

impl Unchecked {
    fn finding(self, site: u64, what: &str) -> ([u64; 4], String) {
        let Self { code, device } = self;
        let what = format!(
            "{what} for the request {code:#x}, which asks for no access, to a device that every user may open"
        );
        ([code.into(), site, device, 0], what)
    }
}
