//! Docking the driver for the length of one run.
//!
//! `drydock serve DRIVER.sys --until-idle --socket PATH` is started and waited for until it accepts. It ends by itself
//! when its last client is gone; until then a second `wperf` finds the same dock, and the same owner.

use super::{DeviceError, DriverOptions, lab};
use lab_client::{Client, socket::SocketPath};
use std::{
    env, fs,
    io::{Read, Seek},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The driver's file name without extension.
pub(super) const DRIVER: &str = "wperf-driver";
/// Names the driver's file.
const DRIVER_VARIABLE: &str = "WPERF_DRIVER";
/// Names the dock's executable.
const DOCK_VARIABLE: &str = "DRYDOCK";
/// Loading takes microseconds; starting the process some milliseconds. A loaded machine may need much more.
const PATIENCE: Duration = Duration::from_secs(20);

/// Docks the driver and connects.
///
/// Errors: [`DeviceError::NoDriver`] when the driver or the dock's executable is not found; [`DeviceError::Failed`], with
/// what the dock printed, when it ends or does not accept in time.
pub(super) fn serve(path: &SocketPath, options: &DriverOptions) -> Result<Client, DeviceError> {
    let driver = find_driver(options)?;
    let dock = find_dock()?;
    path.prepare_folder().map_err(failed)?;
    let mut log = log_file(path)?;
    let mut child = Command::new(&dock)
        .arg("serve")
        .arg(&driver)
        .args(["--until-idle", "--socket"])
        .arg(path.as_path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.try_clone().map_err(failed)?)
        // Ctrl-C is for wperf, which then still has counters to read.
        .process_group_of_its_own()
        .spawn()
        .map_err(|e| DeviceError::Failed(format!("cannot start {}: {e}", dock.display())))?;
    let started = Instant::now();
    loop {
        match Client::connect(path) {
            Ok(client) => return Ok(client),
            Err(error) if !lab::nobody_listens(&error) => return Err(lab::device_error(error)),
            Err(_) => {}
        }
        if let Some(reason) = given_up(&mut child, started)? {
            // Ours may have ended because another run's dock was quicker.
            if let Ok(client) = Client::connect(path) {
                return Ok(client);
            }
            return Err(DeviceError::Failed(format!(
                "{} serve {}: {reason}\n{}",
                dock.display(),
                driver.display(),
                printed(&mut log)
            )));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn given_up(child: &mut Child, started: Instant) -> Result<Option<String>, DeviceError> {
    if let Some(status) = child.try_wait().map_err(failed)? {
        return Ok(Some(format!("ended with {status}")));
    }
    if started.elapsed() < PATIENCE {
        return Ok(None);
    }
    // Our own child, and of no use to anybody: it does not listen.
    child.kill().map_err(failed)?;
    child.wait().map_err(failed)?;
    Ok(Some(format!(
        "does not accept after {} s",
        PATIENCE.as_secs()
    )))
}

fn failed(error: impl std::fmt::Display) -> DeviceError {
    DeviceError::Failed(error.to_string())
}

trait OwnGroup {
    fn process_group_of_its_own(&mut self) -> &mut Self;
}

impl OwnGroup for Command {
    fn process_group_of_its_own(&mut self) -> &mut Self {
        std::os::unix::process::CommandExt::process_group(self, 0)
    }
}

/// The dock's messages go to a file beside the socket: a pipe would die with us and take the dock along.
fn log_file(path: &SocketPath) -> Result<fs::File, DeviceError> {
    let log = path.as_path().with_extension("log");
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    options
        .open(&log)
        .map_err(|e| DeviceError::Failed(format!("{}: {e}", log.display())))
}

fn printed(log: &mut fs::File) -> String {
    let mut text = Vec::new();
    // What cannot be read back cannot be shown; the failure itself is reported anyway.
    let _ = log.rewind().and_then(|()| log.read_to_end(&mut text));
    String::from_utf8_lossy(&text).trim_end().to_owned()
}

fn find_driver(options: &DriverOptions) -> Result<PathBuf, DeviceError> {
    let named = options
        .driver
        .clone()
        .or_else(|| env::var_os(DRIVER_VARIABLE).map(PathBuf::from));
    if let Some(path) = named {
        return existing(path.clone()).ok_or_else(|| {
            DeviceError::NoDriver(format!("There is no driver file {}.", path.display()))
        });
    }
    let executable = env::current_exe().ok();
    let folder = executable.as_deref().and_then(Path::parent);
    let beside = folder.map(|folder| folder.join(DRIVER).with_extension("sys"));
    let current = env::current_dir().ok();
    let above = folder
        .into_iter()
        .chain(current.as_deref())
        .flat_map(Path::ancestors)
        // The target folder of a build, and one that has another name and holds our executable.
        .flat_map(|folder| ["target", ""].map(|target| folder.join(target).join(built())));
    beside
        .into_iter()
        .chain(above)
        .find_map(existing)
        .ok_or_else(|| DeviceError::NoDriver(no_driver_advice()))
}

/// Where in its target folder a build leaves the driver.
fn built() -> PathBuf {
    Path::new("drivers")
        .join(env::consts::ARCH)
        .join(DRIVER)
        .with_extension("sys")
}

fn no_driver_advice() -> String {
    format!(
        "No dock is running, and no driver file was found to dock: name one by --driver FILE or ${DRIVER_VARIABLE}, put \
         {DRIVER}.sys beside this program, or build it to target/{}.",
        built().display()
    )
}

fn find_dock() -> Result<PathBuf, DeviceError> {
    if let Some(path) = env::var_os(DOCK_VARIABLE).map(PathBuf::from) {
        return existing(path.clone()).ok_or_else(|| {
            DeviceError::NoDriver(format!("${DOCK_VARIABLE}: there is no {}.", path.display()))
        });
    }
    let beside = env::current_exe()
        .ok()
        .map(|path| path.with_file_name("drydock"));
    let search = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&search).map(|folder| folder.join("drydock"));
    beside.into_iter().chain(on_path).find_map(existing).ok_or_else(|| {
        DeviceError::NoDriver(format!(
            "No dock is running, and no `drydock` was found to start one: name it by ${DOCK_VARIABLE}, or put it beside \
             this program or on the path."
        ))
    })
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}
