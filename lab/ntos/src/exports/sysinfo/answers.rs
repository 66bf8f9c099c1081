//! `ZwQuerySystemInformation`: what is said of the system, class by class.

use std::ffi::c_void;

use nt::NTSTATUS;
use nt::status::{STATUS_INFO_LENGTH_MISMATCH, STATUS_NOT_IMPLEMENTED, STATUS_SUCCESS};
use nt::sysinfo::SystemFirmwareTableInformation;

use crate::guest;
use crate::machine::{Machine, thread_id};
use crate::process::SYSTEM_PROCESS;
use crate::sched::ThreadId;
use crate::thunk::thunks;

/// Bytes of an answer, built field by field at the offsets of the 64-bit structures.
#[derive(Default)]
struct Answer(Vec<u8>);

impl Answer {
    fn of(size: usize) -> Self {
        Self(vec![0; size])
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn word(&mut self, offset: usize, value: u64) {
        self.put(offset, &value.to_le_bytes());
    }

    fn double(&mut self, offset: usize, value: u32) {
        self.put(offset, &value.to_le_bytes());
    }

    fn half(&mut self, offset: usize, value: u16) {
        self.put(offset, &value.to_le_bytes());
    }
}

/// Sizes of `SYSTEM_PROCESS_INFORMATION`, `SYSTEM_THREAD_INFORMATION`, `RTL_PROCESS_MODULE_INFORMATION`.
const PROCESS: usize = 0x100;
const THREAD: usize = 0x50;
const MODULE: usize = 0x128;

impl Machine {
    pub(super) fn query_system(
        &self,
        class: i32,
        to: *mut c_void,
        len: u32,
        needed: *mut u32,
    ) -> NTSTATUS {
        if class == SystemFirmwareTableInformation {
            return self.firmware_table(to, len, needed);
        }
        let answer = match class {
            0 => self.basic_information(),
            1 => self.processor_information(),
            3 => self.time_of_day(),
            5 => self.process_list(to as u64),
            11 => self.module_list(),
            // SystemKernelDebuggerInformation: not enabled, not present.
            35 => Answer(vec![0, 1]),
            // SystemCodeIntegrityInformation: its length, and that signatures are asked for.
            103 => Answer(vec![8, 0, 0, 0, 1, 0, 0, 0]),
            class => {
                (self.debug_print)(&format!(
                    "lab: ZwQuerySystemInformation({class}) is not provided\n"
                ));
                return STATUS_NOT_IMPLEMENTED;
            }
        };
        let size = u32::try_from(answer.0.len()).unwrap_or(u32::MAX);
        if !needed.is_null() {
            guest::write(needed, size);
        }
        if len < size {
            return STATUS_INFO_LENGTH_MISMATCH;
        }
        guest::fill(to.cast(), &answer.0);
        STATUS_SUCCESS
    }

    /// `SYSTEM_BASIC_INFORMATION`.
    fn basic_information(&self) -> Answer {
        let mut answer = Answer::of(0x40);
        answer.double(0x4, 156_250);
        answer.double(0x8, 4096);
        // Physical pages: 4 GiB, which is all that a driver can be told in this field anyway.
        answer.double(0xC, 1 << 20);
        answer.double(0x10, 1);
        answer.double(0x14, 1 << 20);
        answer.double(0x18, 0x10000);
        answer.word(0x20, 0x10000);
        answer.word(0x28, super::super::data::USER_PROBE_ADDRESS - 1);
        answer.word(0x30, self.group_mask(0) as u64);
        let count = u8::try_from(self.processors_in(0)).unwrap_or(u8::MAX);
        answer.put(0x38, &[count]);
        answer
    }

    /// `SYSTEM_PROCESSOR_INFORMATION`: x86-64 (9), family 6.
    fn processor_information(&self) -> Answer {
        let mut answer = Answer::of(12);
        answer.half(0, 9);
        answer.half(2, 6);
        let count = u16::try_from(self.cpu_count()).unwrap_or(u16::MAX);
        answer.half(6, count);
        answer
    }

    /// `SYSTEM_TIMEOFDAY_INFORMATION`; the time zone is UTC.
    fn time_of_day(&self) -> Answer {
        let mut answer = Answer::of(0x30);
        let now = self.clock.filetime();
        answer.word(0, now - self.clock.now_ns() / 100);
        answer.word(8, now);
        answer
    }

    /// A list of `SYSTEM_PROCESS_INFORMATION` that will lie at `base`.
    fn process_list(&self, base: u64) -> Answer {
        let processes = self.processes.borrow();
        let mut list = Vec::new();
        for (index, process) in processes.iter().enumerate() {
            let start = list.len();
            let entry = self.process_entry(process, base + start as u64);
            list.extend(entry.0);
            if index + 1 < processes.len() {
                let next = u32::try_from(list.len() - start).unwrap_or(0);
                list[start..start + 4].copy_from_slice(&next.to_le_bytes());
            }
        }
        Answer(list)
    }

    fn process_entry(&self, process: &crate::process::Process, at: u64) -> Answer {
        let threads: Vec<usize> = (0..self.thread_count())
            .filter(|index| self.thread(ThreadId(*index)).process.get() == process.address)
            .collect();
        let path = self.process_path(process.id);
        let name: Vec<u8> = path
            .rsplit('\\')
            .next()
            .unwrap_or_default()
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let name_at = PROCESS + THREAD * threads.len();
        let mut entry = Answer::of((name_at + name.len() + 2).next_multiple_of(8));
        entry.double(4, u32::try_from(threads.len()).unwrap_or(0));
        entry.word(0x20, process.started.cast_unsigned());
        let bytes = u16::try_from(name.len()).unwrap_or(0);
        entry.half(0x38, bytes);
        entry.half(0x3A, bytes + 2);
        entry.word(0x40, at + name_at as u64);
        entry.double(0x48, 8);
        entry.word(0x50, process.id);
        let parent = if process.id == SYSTEM_PROCESS {
            0
        } else {
            SYSTEM_PROCESS
        };
        entry.word(0x58, parent);
        for (index, thread) in threads.iter().enumerate() {
            let offset = PROCESS + THREAD * index;
            entry.word(offset + 0x28, process.id);
            entry.word(offset + 0x30, thread_id(ThreadId(*thread)));
            entry.double(offset + 0x38, 8);
            entry.double(offset + 0x3C, 8);
        }
        entry.put(name_at, &name);
        entry
    }

    /// `RTL_PROCESS_MODULES`: the kernel, which is its exports' code and no image, and the drivers.
    fn module_list(&self) -> Answer {
        let kernel = thunks().range();
        let mut modules = vec![(
            kernel.start,
            kernel.end - kernel.start,
            r"\SystemRoot\system32\ntoskrnl.exe".to_owned(),
        )];
        for module in self.modules.borrow().iter() {
            let size = u64::from(module.image.image().header().image_size);
            let path = format!(r"\SystemRoot\system32\drivers\{}.sys", module.name);
            modules.push((module.image.base(), size, path));
        }
        let mut answer = Answer::of(8 + MODULE * modules.len());
        answer.double(0, u32::try_from(modules.len()).unwrap_or(0));
        for (index, (base, size, path)) in modules.iter().enumerate() {
            let at = 8 + MODULE * index;
            answer.word(at + 0x10, *base);
            answer.double(at + 0x18, u32::try_from(*size).unwrap_or(u32::MAX));
            let number = u16::try_from(index).unwrap_or(u16::MAX);
            answer.half(at + 0x20, number);
            answer.half(at + 0x24, 1);
            let name = path.rfind('\\').map_or(0, |at| at + 1);
            answer.half(at + 0x26, u16::try_from(name).unwrap_or(0));
            answer.put(at + 0x28, &path.as_bytes()[..path.len().min(255)]);
        }
        answer
    }
}
