//! A driver in the machine: loading, `DriverEntry`, unloading, what it left behind.

use std::rc::Rc;
use std::sync::Arc;

use lab_image::{ImportName, Loader, MapError, MapOptions, SiteKind};
use lab_verifier::{Leak, RuleId};
use nt::NTSTATUS;
use nt::base::UNICODE_STRING;
use nt::irp::{DRIVER_EXTENSION, DRIVER_OBJECT, IO_TYPE_DRIVER};

use crate::asm;
use crate::findings::Stopped;
use crate::guest::{field, get, set};
use crate::irp::Origin;
use crate::locate::{Module, Symbolize};
use crate::machine::Machine;
use crate::object::Kind;
use crate::paged::Pageable;
use crate::process::SYSTEM_PROCESS;
use crate::sched::{Job, Ran, State};
use crate::thunk::MAX_UNKNOWN_IMPORTS;

/// Value that the driver's stack cookie starts with (not Windows' default, which means "not initialised").
const COOKIE: u64 = 0x0000_9D2C_7F31_B6A5;

/// A driver file, read and analysed once, loaded as often as wanted.
#[derive(Clone)]
pub struct DriverFile {
    /// Name for reports and of the service, without extension.
    pub name: String,
    /// What was read, and what must be patched; keeps what repeated loads share.
    pub loader: Arc<Loader>,
    /// Its debug information.
    pub symbols: Option<Rc<dyn Symbolize>>,
}

/// Why a driver could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It can't be mapped.
    #[error("cannot map the driver: {0}")]
    Map(#[from] MapError),
    /// It is for another processor.
    #[error("the driver is for {0}, and this machine runs x86-64 drivers")]
    Machine(String),
    /// More imports are lacking than the lab can name.
    #[error("{0} imports that the lab does not provide; it can name {MAX_UNKNOWN_IMPORTS}")]
    UnknownImports(usize),
    /// No memory for the driver object.
    #[error("no pool for the driver object: {0}")]
    Resources(NTSTATUS),
    /// `DriverEntry` broke a rule.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// A loaded driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Driver {
    pub(crate) object: u64,
    base: u64,
}

impl Driver {
    pub(crate) fn object(self) -> u64 {
        self.object
    }

    /// Address at which its image is.
    pub fn base(self) -> u64 {
        self.base
    }
}

/// What loading came to.
#[derive(Debug)]
pub enum Loaded {
    /// `DriverEntry` succeeded.
    Running(Driver),
    /// `DriverEntry` failed with this status; the image is gone, and this is what was left behind.
    Failed(NTSTATUS, Vec<Leak>),
}

impl Machine {
    /// Maps a driver and runs its `DriverEntry`.
    pub fn load(&self, file: &DriverFile) -> Result<Loaded, LoadError> {
        self.check_running()?;
        if file.loader.image().machine() != lab_image::Machine::X64 {
            return Err(LoadError::Machine(format!(
                "{:?}",
                file.loader.image().machine()
            )));
        }
        let base = self.map_module(file)?;
        self.check_sections(file.loader.image(), base);
        let driver = match self.make_driver_object(&file.name, base) {
            Ok(driver) => driver,
            Err(status) => {
                self.modules
                    .borrow_mut()
                    .retain(|module| module.image.base() != base);
                return Err(LoadError::Resources(status));
            }
        };
        let entry = get!(driver.object as *mut DRIVER_OBJECT, DriverInit) as u64;
        self.resources.borrow_mut().registry.add_service(&file.name);
        let registry_path = self.resources_string(&format!(
            r"\Registry\Machine\System\CurrentControlSet\Services\{}",
            file.name
        ));
        let result = self.run_call(
            entry,
            [driver.object, (&raw const registry_path) as u64, 0, 0],
        )?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an NTSTATUS is the low half of rax"
        )]
        let status = NTSTATUS::from_u32(result as u32);
        if !status.is_success() {
            let leaks = self.retire(driver);
            return Ok(Loaded::Failed(status, leaks));
        }
        self.check_handlers(driver.object);
        self.finish_initialization(driver);
        Ok(Loaded::Running(driver))
    }

    fn map_module(&self, file: &DriverFile) -> Result<u64, LoadError> {
        let mut unknown = Vec::new();
        let mut bind = |import: &lab_image::Import| {
            let known = match &import.name {
                ImportName::Name(name) if is_kernel(&import.dll) => self.resolve(name),
                _ => None,
            };
            known.unwrap_or_else(|| {
                unknown.push(format!("{}!{}", import.dll, import.name));
                self.thunks()
                    .unknown((unknown.len() - 1).min(MAX_UNKNOWN_IMPORTS - 1))
            })
        };
        let options = MapOptions {
            bind: &mut bind,
            routine: &mut |kind| match kind {
                _ if !self.patch => None,
                SiteKind::Rdmsr => Some(asm::patched_rdmsr as *const () as u64),
                SiteKind::Cpuid => Some(asm::patched_cpuid as *const () as u64),
                SiteKind::Wrmsr => Some(asm::patched_wrmsr as *const () as u64),
                SiteKind::Rdpmc => Some(asm::patched_rdpmc as *const () as u64),
                _ => None,
            },
            kusd_alias: crate::shared_page::address(),
            cookie: COOKIE,
        };
        let image = file.loader.map(options)?;
        if unknown.len() > MAX_UNKNOWN_IMPORTS {
            return Err(LoadError::UnknownImports(unknown.len()));
        }
        let base = image.base();
        if !image.analysis().kusd_references().is_empty() {
            self.shares_page.set(true);
        }
        let pageable = Pageable::new(&image);
        let module = Module {
            name: file.name.clone(),
            image,
            symbols: file.symbols.clone(),
            unknown,
            pageable,
        };
        self.paging.became_resident();
        self.modules.borrow_mut().push(module);
        Ok(base)
    }

    /// Address to bind a kernel import to: a thunk, or a variable.
    fn resolve(&self, name: &str) -> Option<u64> {
        self.thunks().address(name).or_else(|| self.variable(name))
    }

    fn make_driver_object(&self, name: &str, base: u64) -> Result<Driver, NTSTATUS> {
        let size = (size_of::<DRIVER_OBJECT>() + size_of::<DRIVER_EXTENSION>()) as u64;
        let address = self
            .allocate_object(size, b"Driv", Kind::Driver)
            .ok_or(nt::status::STATUS_INSUFFICIENT_RESOURCES)?;
        let object = address as *mut DRIVER_OBJECT;
        let extension = object.wrapping_add(1).cast::<DRIVER_EXTENSION>();
        let (entry, image_size) = self
            .with_module(base, |module| {
                (
                    module.image.entry(),
                    module.image.image().header().image_size,
                )
            })
            .unwrap_or_default();
        set!(object, Type = IO_TYPE_DRIVER);
        set!(
            object,
            Size = i16::try_from(size_of::<DRIVER_OBJECT>()).unwrap_or(0)
        );
        set!(object, DriverStart = base as *mut _);
        set!(object, DriverSize = image_size);
        set!(object, DriverExtension = extension);
        set!(object, DriverInit = entry as *mut _);
        set!(
            object,
            DriverName = self.keep_string(&format!(r"\Driver\{name}"))
        );
        set!(extension, DriverObject = object);
        set!(extension, ServiceKeyName = self.keep_string(name));
        let default: nt::irp::PDRIVER_DISPATCH = crate::exports::io::invalid_device_request();
        set!(object, MajorFunction = [Some(default); 28]);
        let _ = self
            .objects
            .borrow_mut()
            .set_name(address, &format!(r"\Driver\{name}"));
        Ok(Driver {
            object: address,
            base,
        })
    }

    /// A string that lives as long as the machine: names of kernel objects.
    pub(crate) fn keep_string(&self, text: &str) -> UNICODE_STRING {
        self.resources_string(text)
    }

    fn resources_string(&self, text: &str) -> UNICODE_STRING {
        let mut resources = self.resources.borrow_mut();
        let units: Box<[u16]> = text.encode_utf16().chain([0]).collect();
        // The same few names recur with every load: keep one of each.
        let index = match resources.strings.iter().position(|kept| *kept == units) {
            Some(index) => index,
            None => {
                resources.strings.push(units);
                resources.strings.len() - 1
            }
        };
        let kept = &mut resources.strings[index];
        let bytes = u16::try_from((kept.len() - 1) * 2).unwrap_or(u16::MAX - 1);
        UNICODE_STRING {
            Length: bytes,
            MaximumLength: bytes + 2,
            Buffer: kept.as_mut_ptr(),
        }
    }

    /// Devices made in `DriverEntry` can be opened from now on; INIT sections are gone.
    fn finish_initialization(&self, driver: Driver) {
        let mut device = get!(driver.object as *mut DRIVER_OBJECT, DeviceObject);
        while !device.is_null() {
            let flags = get!(device, Flags);
            set!(device, Flags = flags & !nt::io::DO_DEVICE_INITIALIZING);
            device = get!(device, NextDevice);
        }
        self.with_module(driver.base, |module| {
            // Can't fail for pages that were mapped a moment ago; if it does, the driver merely keeps them.
            let _ = module.image.discard_init();
        });
    }

    /// Whether the driver can be unloaded.
    pub fn can_unload(&self, driver: Driver) -> bool {
        get!(driver.object as *mut DRIVER_OBJECT, DriverUnload).is_some()
    }

    /// Runs `DriverUnload`, takes the driver away and says what it left behind.
    pub fn unload(&self, driver: Driver) -> Result<Vec<Leak>, Stopped> {
        self.check_running()?;
        if let Some(unload) = get!(driver.object as *mut DRIVER_OBJECT, DriverUnload) {
            self.run_call(unload as usize as u64, [driver.object, 0, 0, 0])?;
        }
        Ok(self.retire(driver))
    }

    /// Runs a routine of the driver on a system thread to its end.
    pub(crate) fn run_call(&self, function: u64, args: [u64; 4]) -> Result<u64, Stopped> {
        let process = self.process(SYSTEM_PROCESS).unwrap_or_default();
        let Ok(id) = self.free_thread(process) else {
            self.record(
                RuleId::HostFault,
                [0; 4],
                "no memory for a thread".into(),
                0,
            );
            return Err(self.stop());
        };
        self.run_now(id, Job::Call { function, args });
        let done = || self.thread(id).state.get() == State::Free;
        match self.run_blocking(done) {
            Ran::Done => {
                let result = self.thread(id).result.get();
                self.reuse_thread(id);
                Ok(result)
            }
            Ran::Stopped => Err(self.stop()),
            Ran::Idle(_) => {
                self.record(
                    RuleId::WaitForever,
                    [function, 0, 0, 0],
                    "a routine of the driver waits for something that nothing left can bring about"
                        .into(),
                    function,
                );
                Err(self.stop())
            }
        }
    }

    /// Takes account of what a driver left, gives it all back, and unmaps the image.
    fn retire(&self, driver: Driver) -> Vec<Leak> {
        let leaks = self.leaks(driver);
        self.reclaim(driver);
        self.free_object(driver.object);
        self.modules
            .borrow_mut()
            .retain(|module| module.image.base() != driver.base);
        leaks
    }

    fn leaks(&self, driver: Driver) -> Vec<Leak> {
        let mut leaks = Vec::new();
        let mut add = |rule: RuleId, what: String, site: u64| {
            let taken_at = (site != 0).then(|| self.frame(site - 1));
            leaks.push(Leak {
                rule: rule.rule().name,
                what,
                taken_at,
            });
        };
        for block in self.pool.borrow().live_of_driver() {
            add(RuleId::PoolLeak, block.describe(), block.allocated_at);
        }
        let mut device = get!(driver.object as *mut DRIVER_OBJECT, DeviceObject);
        while !device.is_null() {
            let name = self
                .objects
                .borrow()
                .get(device as u64)
                .and_then(|object| object.name.clone());
            let site = self
                .pool
                .borrow()
                .block_at(device as u64)
                .map_or(0, |block| block.allocated_at);
            add(
                RuleId::DeviceLeft,
                format!("device {}", name.as_deref().unwrap_or("without a name")),
                site,
            );
            device = get!(device, NextDevice);
        }
        let objects = self.objects.borrow();
        for (name, target, site) in objects.links() {
            add(
                RuleId::SymbolicLinkLeft,
                format!("symbolic link {name} to {target}"),
                site,
            );
        }
        for (object, site) in objects.open_handles() {
            let kind = objects
                .get(object)
                .map_or("object", |object| object.kind.name());
            add(RuleId::HandleLeft, format!("handle to a {kind}"), site);
        }
        for (_, object) in objects.all() {
            for site in &object.taken {
                add(
                    RuleId::ReferenceLeft,
                    format!("reference to a {}", object.kind.name()),
                    *site,
                );
            }
        }
        for timer in self.timers.borrow().set_timers() {
            add(RuleId::TimerLeft, format!("timer at {timer:#x}"), 0);
        }
        for dpc in self.cpus.iter().flat_map(|cpu| cpu.dpcs.borrow().clone()) {
            add(RuleId::DpcLeft, format!("DPC at {dpc:#x}"), 0);
        }
        for (what, site) in self.connected() {
            add(RuleId::InterruptLeft, what, site);
        }
        let resources = self.resources.borrow();
        for item in resources.work_items.values() {
            add(RuleId::WorkItemLeft, "work item".into(), item.allocated_at);
        }
        for reservation in resources.reservations.values() {
            add(
                RuleId::CountersLeft,
                format!("hardware counters {:?}", reservation.counters),
                reservation.taken_at,
            );
        }
        for site in resources.mdls.values() {
            add(RuleId::MdlLeft, "memory descriptor list".into(), *site);
        }
        for (address, (view, site)) in &self.services.borrow().views {
            let what = format!("{} bytes of a section mapped at {address:#x}", view.len());
            add(RuleId::MappingLeft, what, *site);
        }
        for (address, mapping) in &resources.mappings {
            add(
                RuleId::MappingLeft,
                format!(
                    "{} bytes of {} mapped at {address:#x}",
                    mapping.len, mapping.device
                ),
                mapping.site,
            );
        }
        for (kind, _, site) in resources.all_held() {
            add(kind.left(), kind.name().into(), site);
        }
        for lock in resources.remove_locks.values() {
            for (tag, site) in &lock.held {
                add(
                    RuleId::RemoveLockLeft,
                    format!("remove lock acquired with tag {tag:#x}"),
                    *site,
                );
            }
        }
        for site in resources.shutdown.values() {
            add(RuleId::ShutdownLeft, "shutdown notification".into(), *site);
        }
        for block in self.irps.borrow().live(Origin::Driver) {
            add(RuleId::IrpLeft, "IRP".into(), get!(block, allocated_at));
        }
        for thread in self.threads() {
            if thread.is_system_thread.get() && thread.state.get() != State::Free {
                add(RuleId::ThreadLeft, "system thread".into(), 0);
            }
        }
        leaks
    }

    /// Gives back everything, so that the next load starts clean.
    fn reclaim(&self, driver: Driver) {
        let timers = self.timers.borrow().set_timers();
        for timer in timers {
            self.timers.borrow_mut().cancel(timer);
        }
        for cpu in &self.cpus {
            cpu.dpcs.borrow_mut().clear();
        }
        self.queued_dpcs.set(0);
        self.disconnect_all();
        let mut device = get!(driver.object as *mut DRIVER_OBJECT, DeviceObject);
        while !device.is_null() {
            let next = get!(device, NextDevice);
            self.free_object(device as u64);
            device = next;
        }
        let dead = self.objects.borrow_mut().forget_driver();
        for object in dead {
            self.free_object(object);
        }
        self.pool.borrow_mut().free_all_of_driver();
        let irps: Vec<_> = self.irps.borrow().live(Origin::Driver).collect();
        for block in irps {
            self.free_irp(field!(block, irp));
        }
        self.reclaim_resources();
        self.locks.clear();
    }

    /// Things the machine holds: for a test that nothing grows.
    pub fn footprint(&self) -> Footprint {
        Footprint {
            pool_blocks: self.pool.borrow().live_count(),
            objects: self.objects.borrow().all().count(),
            threads: self.thread_count(),
            timers: self.timers.borrow().set_timers().len(),
            modules: self.modules.borrow().len(),
            strings: self.resources.borrow().strings.len(),
            mappings: self.resources.borrow().mappings.len(),
        }
    }
}

/// Numbers of the things a machine holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// Live pool blocks, the kernel's included.
    pub pool_blocks: usize,
    /// Objects of the object manager.
    pub objects: usize,
    /// Threads, idle ones included.
    pub threads: usize,
    /// Timers that are set.
    pub timers: usize,
    /// Loaded images.
    pub modules: usize,
    /// Kept names.
    pub strings: usize,
    /// Device memory that is mapped.
    pub mappings: usize,
}

fn is_kernel(dll: &str) -> bool {
    nt::KERNEL_IMAGES
        .iter()
        .any(|image| image.eq_ignore_ascii_case(dll))
}
