//! Sessions of event tracing: classic providers are told of them, and their messages collected.
#![expect(non_upper_case_globals, reason = "classes have the names of the WDK")]

use std::collections::BTreeMap;
use std::ffi::c_void;

use nt::NTSTATUS;
use nt::base::GUID;
use nt::etw::{
    AllLoggerHandlesClass, EVENT_CONTROL_CODE_DISABLE_PROVIDER, EVENT_CONTROL_CODE_ENABLE_PROVIDER,
    EventLoggerHandleClass, GlobalLoggerHandleClass, LoggerEventsLostClass, MESSAGE_MARKER,
    TRACE_ENABLE_CONTEXT, TRACE_MESSAGE_COMPONENTID, TRACE_MESSAGE_GUID,
    TRACE_MESSAGE_MAXIMUM_SIZE, TRACE_MESSAGE_SEQUENCE, TRACE_MESSAGE_SYSTEMINFO,
    TRACE_MESSAGE_TIMESTAMP, TraceEnableFlagsClass, TraceEnableLevelClass, TraceHandleByNameClass,
    TraceHandleClass, TraceIdClass,
};
use nt::status::{
    STATUS_INFO_LENGTH_MISMATCH, STATUS_INVALID_HANDLE, STATUS_INVALID_INFO_CLASS,
    STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_MIX, STATUS_NO_MEMORY, STATUS_NOT_FOUND,
    STATUS_SUCCESS,
};

use crate::findings::Stopped;
use crate::guest;
use crate::machine::Machine;
use crate::process::SYSTEM_PROCESS;

/// Bytes of a message before its data, at most: header, sequence, GUID, time, thread and process.
const MOST_HEADER: usize = 8 + 4 + 16 + 8 + 8;

/// A message as a session gets it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Processor that it was written on.
    pub processor: usize,
    /// When it was written: wall time, 100 ns since 1601.
    pub time: u64,
    /// `MESSAGE_TRACE`: header, what the flags in it say, data.
    pub record: &'a [u8],
}

/// Takes messages; `false` for one that there is no room for: it is lost, and the driver told so.
pub type Sink = Box<dyn FnMut(Message<'_>) -> bool>;

/// What a session wants of a provider.
pub struct TraceSession {
    /// Control GUID, as it lies in memory.
    pub provider: [u8; 16],
    /// Highest level.
    pub level: u8,
    /// Bits of flags.
    pub flags: u32,
    /// Where messages go.
    pub sink: Sink,
}

/// What sessions have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// Messages that were taken.
    pub messages: u32,
    /// Messages that there was no room for.
    pub lost: u32,
}

struct Session {
    wanted: TraceSession,
    counted: Traced,
}

#[derive(Clone, Copy)]
struct Provider {
    control: [u8; 16],
    callback: u64,
    context: u64,
}

/// Providers and sessions of a machine.
#[derive(Default)]
pub(crate) struct Tracing {
    providers: BTreeMap<u64, Provider>,
    /// By number; what has ended is gone.
    sessions: BTreeMap<u16, Session>,
    last: u16,
}

impl Tracing {
    /// The number of the session that wants a provider.
    fn session_of(&self, control: [u8; 16]) -> Option<u16> {
        let mut sessions = self.sessions.iter();
        let found = sessions.find(|(_, session)| session.wanted.provider == control);
        found.map(|(number, _)| *number)
    }

    /// A session's handle, as its providers are told it.
    fn context(&self, number: u16) -> TRACE_ENABLE_CONTEXT {
        let wanted = self.sessions.get(&number).map(|session| &session.wanted);
        TRACE_ENABLE_CONTEXT {
            LoggerId: number,
            Level: wanted.map_or(0, |wanted| wanted.level),
            InternalFlag: 0,
            EnableFlags: wanted.map_or(0, |wanted| wanted.flags),
        }
    }

    fn lost(&self, number: u16) -> u32 {
        let session = self.sessions.get(&number);
        session.map_or(0, |session| session.counted.lost)
    }

    /// The handles of all sessions.
    fn handles(&self) -> Vec<[u8; 8]> {
        let bytes = |number: &u16| {
            let context = self.context(*number);
            let [id0, id1] = context.LoggerId.to_le_bytes();
            let [flag0, flag1, flag2, flag3] = context.EnableFlags.to_le_bytes();
            [id0, id1, context.Level, 0, flag0, flag1, flag2, flag3]
        };
        self.sessions.keys().map(bytes).collect()
    }

    pub(crate) fn forget_driver(&mut self) {
        self.providers.clear();
    }
}

/// The number of a session in its handle.
fn number_of(handle: u64) -> u16 {
    let [low, high, ..] = handle.to_le_bytes();
    u16::from_le_bytes([low, high])
}

impl Machine {
    /// Begins a session of event tracing, or changes what it wants: a provider that is registered is told
    /// at once, one that registers later then.
    ///
    /// Errors: the driver broke a rule in its callback.
    pub fn start_trace(&self, session: TraceSession) -> Result<(), Stopped> {
        self.check_running()?;
        let control = session.provider;
        let context = {
            let mut tracing = self.tracing.borrow_mut();
            let number = match tracing.session_of(control) {
                Some(number) => number,
                None => {
                    tracing.last += 1;
                    tracing.last
                }
            };
            let counted = tracing.sessions.get(&number).map(|session| session.counted);
            let session = Session {
                wanted: session,
                counted: counted.unwrap_or_default(),
            };
            tracing.sessions.insert(number, session);
            tracing.context(number)
        };
        self.tell_providers(control, EVENT_CONTROL_CODE_ENABLE_PROVIDER, context)
    }

    /// Ends a session: its provider is told, and what it writes before it returns is still taken.
    ///
    /// Errors: the driver broke a rule in its callback.
    pub fn stop_trace(&self, provider: [u8; 16]) -> Result<Traced, Stopped> {
        let Some(number) = self.tracing.borrow().session_of(provider) else {
            return Ok(Traced::default());
        };
        let context = self.tracing.borrow().context(number);
        self.tell_providers(provider, EVENT_CONTROL_CODE_DISABLE_PROVIDER, context)?;
        let session = self.tracing.borrow_mut().sessions.remove(&number);
        Ok(session.map(|session| session.counted).unwrap_or_default())
    }

    /// What the session of a provider has counted so far.
    pub fn trace_counts(&self, provider: [u8; 16]) -> Traced {
        let tracing = self.tracing.borrow();
        let session = tracing
            .session_of(provider)
            .and_then(|number| tracing.sessions.get(&number));
        session.map(|session| session.counted).unwrap_or_default()
    }

    fn tell_providers(
        &self,
        control: [u8; 16],
        code: u8,
        mut context: TRACE_ENABLE_CONTEXT,
    ) -> Result<(), Stopped> {
        let told: Vec<Provider> = {
            let tracing = self.tracing.borrow();
            let mut all = tracing.providers.values();
            all.by_ref()
                .filter(|provider| provider.control == control)
                .copied()
                .collect()
        };
        let place = (&raw mut context) as u64;
        let guid = control.as_ptr() as u64;
        for provider in told {
            let arguments = [guid, code.into(), place, provider.context];
            self.run_call(provider.callback, arguments)?;
        }
        Ok(())
    }

    /// Notes a provider that has registered, and tells it of a session that waits for it.
    pub(crate) fn add_provider(&self, handle: u64, guid: &GUID, callback: u64, context: u64) {
        let control = guid_bytes(guid);
        let provider = Provider {
            control,
            callback,
            context,
        };
        let waiting = {
            let mut tracing = self.tracing.borrow_mut();
            tracing.providers.insert(handle, provider);
            let number = tracing.session_of(control);
            number.map(|number| tracing.context(number))
        };
        if let Some(mut wanted) = waiting {
            let place = (&raw mut wanted) as u64;
            let code = EVENT_CONTROL_CODE_ENABLE_PROVIDER.into();
            self.call(callback, [control.as_ptr() as u64, code, place, context]);
        }
    }

    /// Forgets a provider that has withdrawn.
    pub(crate) fn remove_provider(&self, handle: u64) {
        self.tracing.borrow_mut().providers.remove(&handle);
    }

    /// `WmiTraceMessage`; `parts` are pairs of an address and a length.
    pub(crate) fn trace_message(
        &self,
        handle: u64,
        flags: u32,
        guid: *const GUID,
        number: u16,
        parts: *const usize,
    ) -> NTSTATUS {
        let logger = number_of(handle);
        if !self.tracing.borrow().sessions.contains_key(&logger) {
            return STATUS_INVALID_HANDLE;
        }
        // What the driver hands over is read before anything of the lab's is borrowed: it may fault.
        let identity = match flags & (TRACE_MESSAGE_GUID | TRACE_MESSAGE_COMPONENTID) {
            0 => Vec::new(),
            TRACE_MESSAGE_COMPONENTID => guest::bytes(guid.cast(), 4),
            _ => guest::bytes(guid.cast(), size_of::<GUID>()),
        };
        let Some(data) = gather(parts) else {
            self.lose(logger);
            return STATUS_NO_MEMORY;
        };
        let time = self.clock.filetime();
        let (thread, process) = self.current_ids();
        let mut tracing = self.tracing.borrow_mut();
        let Some(session) = tracing.sessions.get_mut(&logger) else {
            return STATUS_INVALID_HANDLE;
        };
        let mut record = vec![0; 8];
        if flags & TRACE_MESSAGE_SEQUENCE != 0 {
            let sequence = session.counted.messages + session.counted.lost + 1;
            record.extend(sequence.to_le_bytes());
        }
        record.extend(identity);
        if flags & TRACE_MESSAGE_TIMESTAMP != 0 {
            record.extend(time.to_le_bytes());
        }
        if flags & TRACE_MESSAGE_SYSTEMINFO != 0 {
            record.extend(thread.to_le_bytes());
            record.extend(process.to_le_bytes());
        }
        record.extend(data);
        let size = u16::try_from(record.len()).unwrap_or(u16::MAX);
        let options = u16::try_from(flags & 0xFFFF).unwrap_or(0);
        let header = [size.to_le_bytes(), [0, MESSAGE_MARKER]];
        let rest = [number.to_le_bytes(), options.to_le_bytes()];
        record[..8].copy_from_slice([header, rest].as_flattened().as_flattened());
        let message = Message {
            processor: self.current_cpu.get(),
            time,
            record: &record,
        };
        if (session.wanted.sink)(message) {
            session.counted.messages += 1;
            STATUS_SUCCESS
        } else {
            session.counted.lost += 1;
            STATUS_NO_MEMORY
        }
    }

    fn lose(&self, logger: u16) {
        if let Some(session) = self.tracing.borrow_mut().sessions.get_mut(&logger) {
            session.counted.lost += 1;
        }
    }

    /// Ids of the thread and the process that run.
    fn current_ids(&self) -> (u32, u32) {
        let low = |id: u64| u32::try_from(id & 0xFFFF_FFFF).unwrap_or(0);
        let process = self.process_id(self.current_process());
        let process = process.unwrap_or(SYSTEM_PROCESS);
        (low(self.current_thread_id()), low(process))
    }

    /// `WmiQueryTraceInformation`.
    pub(crate) fn query_trace(
        &self,
        class: i32,
        to: *mut c_void,
        length: u32,
        required: *mut u32,
        node: *const u8,
    ) -> NTSTATUS {
        /// `WNODE_HEADER.HistoricalContext`, wmistr.h.
        const CONTEXT: usize = 8;
        let answer = |bytes: &[u8]| {
            let wanted = u32::try_from(bytes.len()).unwrap_or(0);
            if !required.is_null() {
                guest::write(required, wanted);
            }
            if length != wanted {
                return STATUS_INFO_LENGTH_MISMATCH;
            }
            guest::fill(to.cast(), bytes);
            STATUS_SUCCESS
        };
        match class {
            GlobalLoggerHandleClass | EventLoggerHandleClass => return STATUS_NOT_FOUND,
            // The lab's sessions have no names.
            TraceHandleByNameClass => return STATUS_INVALID_PARAMETER,
            AllLoggerHandlesClass => {
                let handles = self.tracing.borrow().handles();
                return answer(handles.as_flattened());
            }
            TraceIdClass..=TraceEnableLevelClass | LoggerEventsLostClass => {}
            _ => return STATUS_INVALID_INFO_CLASS,
        }
        if node.is_null() {
            return STATUS_INVALID_PARAMETER_MIX;
        }
        let handle: u64 = guest::read(node.wrapping_add(CONTEXT).cast());
        let number = number_of(handle);
        let known = self.tracing.borrow().sessions.contains_key(&number);
        if !known {
            return STATUS_INVALID_HANDLE;
        }
        let lost = self.tracing.borrow().lost(number);
        let context = self.tracing.borrow().context(number);
        match class {
            TraceIdClass => answer(&u32::from(number).to_le_bytes()),
            TraceHandleClass => answer(&handle.to_le_bytes()),
            TraceEnableFlagsClass => answer(&context.EnableFlags.to_le_bytes()),
            TraceEnableLevelClass => answer(&u32::from(context.Level).to_le_bytes()),
            _ => answer(&lost.to_le_bytes()),
        }
    }
}

/// The data of a message; `None` if it is too much for one.
fn gather(parts: *const usize) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    for index in (0..).step_by(2) {
        let address = guest::read(parts.wrapping_add(index));
        if address == 0 {
            break;
        }
        let length = guest::read(parts.wrapping_add(index + 1));
        if length > TRACE_MESSAGE_MAXIMUM_SIZE - 1 - MOST_HEADER - data.len() {
            return None;
        }
        data.extend(guest::bytes(address as *const u8, length));
    }
    Some(data)
}

fn guid_bytes(guid: &GUID) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&guid.Data1.to_le_bytes());
    bytes[4..6].copy_from_slice(&guid.Data2.to_le_bytes());
    bytes[6..8].copy_from_slice(&guid.Data3.to_le_bytes());
    bytes[8..].copy_from_slice(&guid.Data4);
    bytes
}
