//! A docked driver that records.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use lab_client::Client;
use lab_client::protocol::{Access, Completion, Handle};
use lab_client::socket::SocketPath;
use lab_image::Image;
use trace_decode::stream::{Batch, Time};
use trace_decode::{Catalogue, Header, Stream};
use trace_format::Level;
use trace_format::request::{
    Call, FILE_MAGIC, Information, Mode, ReadReply, ReadRequest, Selection, Switch,
};
use zerocopy::{FromBytes, IntoBytes};

/// Room for an answer; a ring of 2048 slots fits.
const ROOM: u32 = 64 << 10;

/// Between two looks at the rings while nothing comes.
const PAUSE: Duration = Duration::from_millis(2);

/// Switches in one call.
const SWITCHES: usize = 512;

/// The device that a driver's file names: its symbolic link, as it stands there in UTF-16.
pub(super) fn device_of(image: &Image) -> Option<String> {
    let bytes = image.file();
    ["\\??\\", "\\DosDevices\\"].into_iter().find_map(|prefix| {
        let wide: Vec<u8> = prefix.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let at = bytes
            .windows(wide.len())
            .position(|window| window == wide)?;
        let units = bytes[at + wide.len()..].as_chunks::<2>().0.iter();
        let name = units
            .map_while(|unit| char::from_u32(u16::from_le_bytes(*unit).into()))
            .take_while(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(*letter));
        let name: String = name.collect();
        (!name.is_empty()).then(|| format!(r"\\.\{name}"))
    })
}

/// What is to be recorded.
pub(super) struct Wanted<'a> {
    pub(super) level: Level,
    pub(super) flags: u32,
    pub(super) functions: &'a [String],
    pub(super) keep_first: bool,
}

impl Wanted<'_> {
    /// What drivers record while nobody looks.
    pub(super) const REST: Self = Self {
        level: Level::Information,
        flags: u32::MAX,
        functions: &[],
        keep_first: false,
    };
}

/// A docked driver's device.
pub(super) struct Live {
    client: Client,
    handle: Handle,
}

impl Live {
    pub(super) fn connect(path: &SocketPath, device: &str) -> anyhow::Result<Self> {
        let client = Client::connect(path)?;
        let handle = client.open(device, Access::READ_WRITE)?;
        Ok(Self { client, handle })
    }

    fn call(&self, call: Call, input: &[u8], room: u32) -> anyhow::Result<Vec<u8>> {
        let Completion { status, output, .. } =
            self.client.ioctl(self.handle, call.code(), input, room)?;
        ensure!(
            status.is_success(),
            "the driver refuses to {} its trace: {status:?}",
            match call {
                Call::Query => "describe",
                Call::Select | Call::Switch => "choose",
                Call::Read => "give",
            }
        );
        Ok(output)
    }

    /// Who records, and how.
    pub(super) fn header(&self) -> anyhow::Result<Header> {
        let size = u32::try_from(size_of::<Information>())?;
        let answer = self.call(Call::Query, &[], size)?;
        let Ok(information) = Information::read_from_bytes(&answer) else {
            bail!(
                "the driver describes its trace in {} bytes, not {size}",
                answer.len()
            );
        };
        Ok(Header::new(information)?)
    }

    /// Chooses what is recorded.
    pub(super) fn select(&self, wanted: &Wanted<'_>, catalogue: &Catalogue) -> anyhow::Result<()> {
        let mode = if wanted.keep_first {
            Mode::StopWhenFull
        } else {
            Mode::Overwrite
        };
        let by_function = !wanted.functions.is_empty();
        let selection = Selection {
            level: if by_function { 0 } else { wanted.level as u32 },
            flags: wanted.flags,
            mode: mode as u32,
            anew: wanted.keep_first.into(),
        };
        self.call(Call::Select, selection.as_bytes(), 0)?;
        let is_wanted = |switch: &&trace_decode::catalogue::Switch| {
            let site = &switch.site;
            let in_function = wanted.functions.iter().any(|part| site.is_in(part));
            in_function && site.level <= wanted.level && wanted.flags >> site.flag & 1 != 0
        };
        let on: Vec<Switch> = catalogue
            .switches()
            .iter()
            .filter(is_wanted)
            .map(|switch| Switch {
                index: switch.index,
                on: 1,
            })
            .collect();
        ensure!(
            !by_function || !on.is_empty(),
            "no event is in such a function"
        );
        for some in on.chunks(SWITCHES) {
            self.call(Call::Switch, some.as_bytes(), 0)?;
        }
        Ok(())
    }

    fn read(&self, ring: u32, from: u64) -> anyhow::Result<(ReadReply, Vec<u8>)> {
        let request = ReadRequest {
            ring,
            reserved: 0,
            from,
        };
        let mut answer = self.call(Call::Read, request.as_bytes(), ROOM)?;
        let Ok((reply, _)) = ReadReply::read_from_prefix(&answer) else {
            bail!("the driver's answer is {} bytes short", answer.len());
        };
        answer.drain(..size_of::<ReadReply>());
        Ok((reply, answer))
    }
}

/// A file for what was read.
pub(super) fn create(path: &Path) -> anyhow::Result<BufWriter<File>> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(BufWriter::new(file))
}

/// When it ends.
pub(super) struct Until<'a> {
    pub(super) duration: Option<Duration>,
    pub(super) command: &'a [String],
    pub(super) once: bool,
}

/// What is being read.
pub(super) struct Recording<'c> {
    pub(super) live: &'c Live,
    pub(super) stream: Stream<'c>,
    pub(super) copy: Option<BufWriter<File>>,
}

impl Recording<'_> {
    /// Begins the copy.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        if let Some(copy) = &mut self.copy {
            copy.write_all(&FILE_MAGIC)?;
            copy.write_all(self.stream.header().information().as_bytes())?;
        }
        Ok(())
    }

    /// Reads all rings, again and again; gives how the command ended.
    pub(super) fn run(
        &mut self,
        until: &Until<'_>,
        mut take: impl FnMut(&Batch, &Time) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<ExitStatus>> {
        let interrupted = interruption()?;
        let mut command = Running::start(until.command)?;
        let started = Instant::now();
        loop {
            let status = command.ended()?;
            let is_last = until.once
                || status.is_some()
                || is_readable(&interrupted)?
                || until
                    .duration
                    .is_some_and(|limit| started.elapsed() >= limit);
            let mut batch = Batch::default();
            let positions = self.look(&mut batch)?;
            if is_last {
                self.stream.finish(&positions, &mut batch);
            }
            batch.sort();
            take(&batch, &self.stream.time())?;
            if is_last {
                if let Some(copy) = &mut self.copy {
                    copy.flush()?;
                }
                return Ok(status);
            }
            if batch.events.is_empty() {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Reads what is new in each ring; gives their positions.
    fn look(&mut self, batch: &mut Batch) -> anyhow::Result<Vec<u64>> {
        let mut positions = Vec::new();
        for ring in 0..self.stream.header().rings() {
            loop {
                let from = self.stream.next(ring);
                let (reply, slots) = self.live.read(ring, from)?;
                if let Some(copy) = self.copy.as_mut().filter(|_| reply.slots > 0) {
                    copy.write_all(reply.as_bytes())?;
                    copy.write_all(&slots)?;
                }
                self.stream.push(&reply, &slots, batch)?;
                let next = self.stream.next(ring);
                if next == from || next >= reply.position {
                    positions.push(reply.position);
                    break;
                }
            }
        }
        Ok(positions)
    }
}

/// A command that ends the recording with its own end, and is ended with it.
struct Running(Option<Child>);

impl Running {
    fn start(words: &[String]) -> anyhow::Result<Self> {
        let Some((program, rest)) = words.split_first() else {
            return Ok(Self(None));
        };
        let child = Command::new(program).args(rest).spawn();
        Ok(Self(Some(
            child.with_context(|| format!("cannot run {program}"))?,
        )))
    }

    fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        match &mut self.0 {
            Some(child) => Ok(child.try_wait()?),
            None => Ok(None),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It has ended already, unless the recording failed or was interrupted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Something to read once the user wants an end.
fn interruption() -> anyhow::Result<UnixStream> {
    let (stop, trigger) = UnixStream::pair().context("cannot make a pipe")?;
    stop.set_nonblocking(true)?;
    ctrlc::set_handler(move || {
        // A second signal finds the pipe full or closed: the first is enough.
        let _ = (&trigger).write(&[1]);
    })
    .context("cannot handle signals")?;
    Ok(stop)
}

fn is_readable(mut stream: &UnixStream) -> anyhow::Result<bool> {
    match std::io::Read::read(&mut stream, &mut [0]) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error.into()),
    }
}
