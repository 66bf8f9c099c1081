//! From addresses to places in driver code, and from a raw finding to a report.

use std::rc::Rc;

use lab_image::MappedImage;
use lab_verifier::{Access, Cpu, Finding, Frame, RuleId};

use crate::guest;
use crate::machine::Machine;
use crate::memory;
use crate::paged::Pageable;
use crate::sched::ThreadId;
use crate::thunk::thunks;
use crate::unwind::{self, Function, Memory, Registers};

/// Frames of a stack trace, at most.
const MAX_FRAMES: usize = 48;

/// Names for places in an image, from its debug information.
pub trait Symbolize {
    /// Function, offset in it, file and line of an offset in the image.
    fn locate(&self, rva: u32) -> Option<Symbol>;
}

/// What debug information says about a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Demangled name; with inlined functions, innermost first: `inner in outer`.
    pub function: String,
    /// Bytes from its start.
    pub offset: u64,
    /// Source file and line.
    pub line: Option<(String, u32)>,
}

/// A loaded image.
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) image: MappedImage,
    pub(crate) symbols: Option<Rc<dyn Symbolize>>,
    /// Names of the imports that nobody provides, by their number.
    pub(crate) unknown: Vec<String>,
    /// Its `PAGE…` sections.
    pub(crate) pageable: Pageable,
}

/// A broken rule as it was caught: plain data, to be explained later.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) rule: RuleId,
    pub(crate) parameters: [u64; 4],
    pub(crate) what: String,
    pub(crate) registers: Registers,
    pub(crate) access: Option<(&'static str, u64)>,
    /// Index of the export it happened in.
    pub(crate) api: Option<u64>,
    /// Whether the instruction pointer is a return address: the instruction concerned is the call before it.
    pub(crate) after_call: bool,
    pub(crate) cpu: Cpu,
    pub(crate) thread: Option<ThreadId>,
}

impl Machine {
    /// The module whose reserved range holds an address.
    pub(crate) fn with_module<R>(&self, address: u64, f: impl FnOnce(&Module) -> R) -> Option<R> {
        let modules = self.modules.try_borrow().ok()?;
        let module = modules
            .iter()
            .find(|module| module.image.reserved_range().contains(&address))?;
        Some(f(module))
    }

    /// Where an address is.
    pub(crate) fn frame(&self, address: u64) -> Frame {
        self.with_module(address, |module| {
            let origin = module.image.origin_of(address).unwrap_or(address);
            let Some(rva) = module.image.rva_of(origin) else {
                return Frame {
                    module: Some(module.name.clone()),
                    rva: address - module.image.base(),
                    ..Frame::default()
                };
            };
            let symbol = module
                .symbols
                .as_ref()
                .and_then(|symbols| symbols.locate(rva));
            let (file, line) = symbol
                .as_ref()
                .and_then(|symbol| symbol.line.clone())
                .unzip();
            Frame {
                module: Some(module.name.clone()),
                rva: u64::from(rva),
                offset: symbol.as_ref().map(|symbol| symbol.offset),
                function: symbol.map(|symbol| symbol.function),
                file,
                line,
            }
        })
        .unwrap_or(Frame {
            rva: address,
            ..Frame::default()
        })
    }

    /// The callers of a place in driver code, itself first.
    fn stack(&self, raw: &Raw) -> Vec<Frame> {
        let addresses = self.addresses(raw.registers, raw.thread, raw.after_call);
        addresses
            .into_iter()
            .map(|inside| self.frame(inside))
            .collect()
    }

    /// Return addresses of the kernel call under way, innermost first.
    pub(crate) fn call_stack(&self) -> Vec<u64> {
        let inside = self.addresses(self.call_registers(), self.running.get(), true);
        inside.into_iter().map(|address| address + 1).collect()
    }

    /// Addresses inside the instructions of a call stack, innermost first.
    fn addresses(
        &self,
        mut registers: Registers,
        thread: Option<ThreadId>,
        after_call: bool,
    ) -> Vec<u64> {
        let memory = Walk {
            machine: self,
            thread,
        };
        let mut addresses = Vec::new();
        while addresses.len() < MAX_FRAMES && self.with_module(registers.rip, |_| ()).is_some() {
            // A return address may be one past a call that ends its function.
            let after_call = after_call || !addresses.is_empty();
            addresses.push(registers.rip - u64::from(after_call));
            if unwind::step(&memory, &mut registers).is_none() {
                break;
            }
        }
        addresses
    }

    /// The disassembled instruction at an address of a driver, as the file has it.
    fn instruction(&self, address: u64) -> Option<String> {
        let bytes = self.original_code(address)?;
        let mut decoder =
            iced_x86::Decoder::with_ip(64, &bytes, address, iced_x86::DecoderOptions::NONE);
        let instruction = decoder.decode();
        (!instruction.is_invalid()).then(|| instruction.to_string())
    }

    /// Up to 15 bytes of code at an address, before the lab patched it.
    pub(crate) fn original_code(&self, address: u64) -> Option<Vec<u8>> {
        self.with_module(address, |module| {
            let rva = module.image.rva_of(module.image.origin_of(address)?)?;
            let stored = module.image.image().stored_from(rva)?;
            Some(stored[..stored.len().min(15)].to_vec())
        })?
    }

    /// Turns what was caught into a report.
    pub(crate) fn explain(&self, raw: &Raw) -> Finding {
        let mut finding = Finding::new(raw.rule, raw.parameters, raw.what.clone(), raw.cpu);
        finding.at =
            self.frame(raw.registers.rip - u64::from(raw.after_call && raw.registers.rip != 0));
        // Without a thread the place is where something was called or taken, and no instruction of its own.
        finding.instruction = if raw.after_call || raw.thread.is_none() {
            None
        } else {
            self.instruction(raw.registers.rip)
        };
        finding.stack = self.stack(raw);
        finding.api = raw
            .api
            .and_then(|index| thunks().contract(index))
            .map(|contract| contract.name.to_owned());
        finding.access = raw.access.map(|(kind, address)| Access {
            kind,
            address,
            target: self.describe(address),
        });
        finding
    }

    /// What is, or was, at a data address.
    pub(crate) fn describe(&self, address: u64) -> Option<String> {
        if let Ok(pool) = self.pool.try_borrow()
            && let Some(block) = pool.block_at(address)
        {
            let place = address.cast_signed() - block.address.cast_signed();
            let mut text = format!(
                "byte {place} of {}, allocated at {}",
                block.describe(),
                self.site_in_words(block.allocated_at)
            );
            if block.freed_at != 0 {
                text.push_str(&format!(
                    ", freed at {}",
                    self.site_in_words(block.freed_at)
                ));
            }
            return Some(text);
        }
        if memory::is_user(address) {
            let known = self.kernel_address_of(address).is_some();
            return known.then(|| "a user program's buffer".into());
        }
        self.with_module(address, |module| {
            let rva = module.image.rva_of(address)?;
            let section = module.image.image().section_at(rva)?;
            Some(format!("section {} of {}", section.name, module.name))
        })?
    }
}

/// Memory of a machine as the unwinder reads it.
pub(crate) struct Walk<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) thread: Option<ThreadId>,
}

impl Memory for Walk<'_> {
    fn function(&self, rip: u64) -> Option<Function> {
        self.machine.with_module(rip, |module| {
            let image = &module.image;
            let rva = image.rva_of(image.origin_of(rip)?)?;
            let entry = image.image().function_at(rva)?;
            Some(Function {
                image_base: image.base(),
                begin: image.address_of(entry.begin),
                end: image.address_of(entry.end),
                unwind: image.address_of(entry.unwind),
            })
        })?
    }

    fn image_byte(&self, address: u64) -> Option<u8> {
        self.machine.with_module(address, |module| {
            let rva = module.image.rva_of(address)?;
            module.image.image().stored_from(rva)?.first().copied()
        })?
    }

    fn code(&self, rip: u64) -> Option<Vec<u8>> {
        self.machine.original_code(rip)
    }

    fn stack_word(&self, address: u64) -> Option<u64> {
        let on_stack = self
            .thread
            .is_some_and(|id| self.machine.on_kernel_stack(id, address));
        (on_stack && address.is_multiple_of(8)).then(|| guest::read(address as *const u64))
    }
}
