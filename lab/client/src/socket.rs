//! Where the socket of a docked driver is.
//!
//! `$DRYDOCK_SOCKET` if set, else `$XDG_RUNTIME_DIR/drydock/<driver>.sock`, else
//! `/tmp/drydock-<uid>/<driver>.sock`. The folder of the last two belongs to the user alone (mode 0700): whoever may
//! connect may send I/O control codes.

use rustix::fs::Mode;
use std::{
    env,
    ffi::OsString,
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Environment variable that names the socket itself.
pub const SOCKET_VARIABLE: &str = "DRYDOCK_SOCKET";

/// Why there is no usable socket path.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The driver's name cannot be part of a file name.
    #[error("`{0}` cannot be a driver's name")]
    DriverName(String),
    /// The folder is there, but others could put their own socket into it.
    #[error(
        "{folder} must be a folder of user {expected} with mode 0700, but is of user {owner} with mode {mode:04o}"
    )]
    NotPrivate {
        /// The folder.
        folder: PathBuf,
        /// Our user id.
        expected: u32,
        /// Its owner.
        owner: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// The folder is something else.
    #[error("{0} is not a folder")]
    NotAFolder(PathBuf),
    /// The folder cannot be made or looked at.
    #[error("{folder}: {source}")]
    Io {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The socket path of a driver, and whether we answer for its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketPath {
    /// Named by the user in `$DRYDOCK_SOCKET` or on a command line.
    Given(PathBuf),
    /// In a folder of ours.
    Private(PathBuf),
}

impl SocketPath {
    /// The path, from this process's environment.
    ///
    /// Errors: [`SocketError::DriverName`].
    pub fn of_driver(driver: &str) -> Result<Self, SocketError> {
        let uid = rustix::process::getuid().as_raw();
        choose(driver, |name| env::var_os(name), uid)
    }

    /// The path alone.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        match self {
            Self::Given(path) | Self::Private(path) => path,
        }
    }

    /// Makes the folder if it is ours to make, and checks that nobody else can write there; for who listens.
    ///
    /// Errors: [`SocketError::NotPrivate`], [`SocketError::NotAFolder`], [`SocketError::Io`].
    pub fn prepare_folder(&self) -> Result<(), SocketError> {
        let Some(folder) = self.private_folder() else {
            return Ok(());
        };
        match rustix::fs::mkdir(folder, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => check_private(folder),
            Err(e) => Err(io_error(folder, e.into())),
        }
    }

    /// Checks that nobody else could have put the socket there; for who connects. A missing folder is fine.
    ///
    /// Errors: [`SocketError::NotPrivate`], [`SocketError::NotAFolder`], [`SocketError::Io`].
    pub fn check_folder(&self) -> Result<(), SocketError> {
        match self.private_folder() {
            Some(folder) if folder.symlink_metadata().is_ok() => check_private(folder),
            _ => Ok(()),
        }
    }

    fn private_folder(&self) -> Option<&Path> {
        match self {
            Self::Given(_) => None,
            Self::Private(path) => path.parent(),
        }
    }
}

fn choose(
    driver: &str,
    variable: impl Fn(&str) -> Option<OsString>,
    uid: u32,
) -> Result<SocketPath, SocketError> {
    if driver.is_empty() || driver.starts_with('.') || driver.contains(['/', '\0']) {
        return Err(SocketError::DriverName(driver.to_owned()));
    }
    if let Some(path) = variable(SOCKET_VARIABLE).filter(|p| !p.is_empty()) {
        return Ok(SocketPath::Given(path.into()));
    }
    let runtime = variable("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute());
    let folder = match runtime {
        Some(runtime) => runtime.join("drydock"),
        None => PathBuf::from(format!("/tmp/drydock-{uid}")),
    };
    Ok(SocketPath::Private(folder.join(format!("{driver}.sock"))))
}

fn check_private(folder: &Path) -> Result<(), SocketError> {
    // A symbolic link of somebody else's is not a folder of ours.
    let metadata = folder
        .symlink_metadata()
        .map_err(|source| io_error(folder, source))?;
    if !metadata.is_dir() {
        return Err(SocketError::NotAFolder(folder.to_owned()));
    }
    let expected = rustix::process::getuid().as_raw();
    let mode = metadata.permissions().mode() & 0o7777;
    if metadata.uid() != expected || mode != 0o700 {
        return Err(SocketError::NotPrivate {
            folder: folder.to_owned(),
            expected,
            owner: metadata.uid(),
            mode,
        });
    }
    Ok(())
}

fn io_error(folder: &Path, source: io::Error) -> SocketError {
    SocketError::Io {
        folder: folder.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn with(pairs: &[(&str, &str)], driver: &str) -> Result<SocketPath, SocketError> {
        let find = |name: &str| {
            pairs
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| v.into())
        };
        choose(driver, find, 1000)
    }

    #[test]
    fn the_variable_comes_before_the_runtime_folder_and_that_before_tmp() {
        let all = [
            (SOCKET_VARIABLE, "/a/b.sock"),
            ("XDG_RUNTIME_DIR", "/run/user/1000"),
        ];
        assert_eq!(
            with(&all, "d").unwrap(),
            SocketPath::Given("/a/b.sock".into())
        );
        assert_eq!(
            with(&all[1..], "d").unwrap(),
            SocketPath::Private("/run/user/1000/drydock/d.sock".into())
        );
        assert_eq!(
            with(&[], "d").unwrap(),
            SocketPath::Private("/tmp/drydock-1000/d.sock".into())
        );
    }

    #[test]
    fn empty_and_relative_settings_are_passed_over() {
        let odd = [(SOCKET_VARIABLE, ""), ("XDG_RUNTIME_DIR", "run")];
        assert_eq!(
            with(&odd, "d").unwrap(),
            SocketPath::Private("/tmp/drydock-1000/d.sock".into())
        );
    }

    #[test]
    fn a_driver_name_cannot_leave_the_folder() {
        for name in ["", "..", "../x", "a/b", "a\0b"] {
            assert!(matches!(with(&[], name), Err(SocketError::DriverName(_))));
        }
    }

    #[test]
    fn a_folder_is_made_for_its_user_alone() {
        let temporary = tempfile::tempdir().unwrap();
        let path = SocketPath::Private(temporary.path().join("drydock/d.sock"));
        path.check_folder().unwrap();
        path.prepare_folder().unwrap();
        path.prepare_folder().unwrap();
        let mode = fs::metadata(temporary.path().join("drydock"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o700);
    }

    #[test]
    fn a_folder_open_to_others_is_refused_by_both_ends() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("drydock");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let path = SocketPath::Private(folder.join("d.sock"));
        assert!(matches!(
            path.prepare_folder(),
            Err(SocketError::NotPrivate { mode: 0o777, .. })
        ));
        assert!(matches!(
            path.check_folder(),
            Err(SocketError::NotPrivate { .. })
        ));
    }
}
