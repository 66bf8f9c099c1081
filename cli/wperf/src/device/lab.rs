//! A driver docked in the lab.

use super::{Device, DeviceError, DriverOptions, Host, Opened, dock};
use lab_client::{
    Client, ClientError,
    protocol::{Access, Handle},
    socket::SocketPath,
};
use std::{io, sync::Arc};
use wperf_abi::{
    CLIENT_PATH,
    client::{self, Reply},
};

/// Opens the docked driver, docking it for the length of this run when it is not.
///
/// Errors: [`DeviceError::NoDriver`] when there is none to dock; [`DeviceError::Failed`] when docking fails.
pub fn open(options: &DriverOptions) -> Result<Opened, DeviceError> {
    let path = socket()?;
    let client = match Client::connect(&path) {
        Err(error) if nobody_listens(&error) => dock::serve(&path, options)?,
        other => other.map_err(device_error)?,
    };
    open_device(client)
}

/// Opens the docked driver if there is one.
///
/// Errors: there is one, but it cannot be used.
pub fn open_running() -> Result<Option<Opened>, DeviceError> {
    match Client::connect(&socket()?) {
        Err(error) if nobody_listens(&error) => Ok(None),
        other => open_device(other.map_err(device_error)?).map(Some),
    }
}

fn socket() -> Result<SocketPath, DeviceError> {
    SocketPath::of_driver(dock::DRIVER).map_err(|error| DeviceError::Failed(error.to_string()))
}

/// Whether the error says that no dock is there, or that the one which was there is dead.
pub(super) fn nobody_listens(error: &ClientError) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(error, ClientError::Connect { source, .. } if matches!(source.kind(), NotFound | ConnectionRefused))
}

fn open_device(client: Client) -> Result<Opened, DeviceError> {
    let handle = client
        .open(CLIENT_PATH, Access::READ_WRITE)
        .map_err(device_error)?;
    let client = Arc::new(client);
    let device: Box<dyn Device> = Box::new(Docked {
        client: Arc::clone(&client),
        handle,
    });
    Ok(Opened {
        client: client::Client::new(device),
        host: Box::new(Lab(client)),
    })
}

struct Docked {
    client: Arc<Client>,
    handle: Handle,
}

impl Device for Docked {
    fn ioctl(&mut self, code: u32, input: &[u8], output: &mut [u8]) -> Result<Reply, DeviceError> {
        let room = u32::try_from(output.len()).unwrap_or(u32::MAX);
        let completion = self
            .client
            .ioctl(self.handle, code, input, room)
            .map_err(device_error)?;
        let bytes = completion.output.len();
        let Some(target) = output.get_mut(..bytes) else {
            return Err(DeviceError::Failed(format!(
                "the dock returned {bytes} bytes for a buffer of {room}"
            )));
        };
        target.copy_from_slice(&completion.output);
        Ok(Reply::from_ntstatus(completion.status.0, bytes))
    }
}

/// What a dock calls the PMU that counts processes of the host.
const HOST_SOURCE: &str = "perf";
/// The same on a host that has no hardware counters.
const HOST_CLOCK: &str = "perf-software";

struct Lab(Arc<Client>);

impl Host for Lab {
    fn describe(&self) -> Option<String> {
        let about = self.0.describe().ok()?;
        Some(format!(
            "{} docked in the lab: {} cores, PMU source {}",
            about.driver, about.cpus, about.pmu_source
        ))
    }

    fn caveat(&self) -> Option<&'static str> {
        match self.0.describe().ok()?.pmu_source.as_str() {
            HOST_SOURCE => None,
            HOST_CLOCK => Some(
                "warning: this host lends no hardware counters: a cycle is a nanosecond of CPU time, kernel mode included",
            ),
            _ => Some("warning: the PMU is a model, its counts are not the program's"),
        }
    }

    fn counts_host_events(&self) -> bool {
        let about = self.0.describe();
        about.is_ok_and(|about| about.pmu_source.starts_with(HOST_SOURCE))
    }

    fn samples_only_attached(&self) -> bool {
        true
    }

    fn attach(&mut self, core: u32, pid: u32) -> Result<(), DeviceError> {
        self.0.attach(core, pid).map_err(device_error)
    }

    fn detach(&mut self, core: u32) -> Result<(), DeviceError> {
        self.0.detach(core).map_err(device_error)
    }
}

pub(super) fn device_error(error: ClientError) -> DeviceError {
    match error {
        ClientError::Stopped(report) => DeviceError::Stopped(report),
        other => DeviceError::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_client::protocol::{
        Completion, NtStatus, PROTOCOL_VERSION, Reply as Answer, Request, read_frame, write_frame,
    };
    use std::{os::unix::net::UnixStream, thread};
    use wperf_abi::record::{AcquireMode, AcquireOutcome, AcquireReply};
    use zerocopy::IntoBytes;

    fn docked(status: u32, output: Vec<u8>) -> Opened {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            while let Ok(Some(request)) = read_frame::<Request>(&mut theirs) {
                let answer = match request {
                    Request::Hello { .. } => Answer::Welcome {
                        version: PROTOCOL_VERSION,
                        driver: dock::DRIVER.into(),
                    },
                    Request::Open { .. } => Answer::Opened { handle: Handle(1) },
                    _ => Answer::Completed(Completion {
                        status: NtStatus(status),
                        information: output.len() as u64,
                        output: output.clone(),
                    }),
                };
                write_frame(&mut theirs, &answer).unwrap();
            }
        });
        open_device(Client::handshake(ours).unwrap()).unwrap()
    }

    #[test]
    fn a_busy_answer_brings_the_holder_over_the_socket() {
        let reply = AcquireReply {
            outcome: AcquireOutcome::BUSY,
            core: 1,
            holder_pid: 42,
            counters_free_min: 0,
            holder_session: 7,
            holder_since: 9,
        };
        let mut opened = docked(
            wperf_abi::Refusal::Busy.ntstatus(),
            reply.as_bytes().to_vec(),
        );
        let answer = opened.client.acquire(AcquireMode::NORMAL, &[0, 1]).unwrap();
        assert_eq!(answer, reply);
    }

    #[test]
    fn more_output_than_the_buffer_holds_is_an_error() {
        let mut opened = docked(0, vec![0; 4096]);
        assert!(opened.client.acquire(AcquireMode::NORMAL, &[0]).is_err());
    }
}
