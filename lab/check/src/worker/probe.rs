//! What a confined process must not be able to do: tried on demand, to prove it.

use std::io::Error;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Said;

/// Something to try.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// Read a file that everybody may read.
    OpenFile,
    /// Make a file in the folder for temporary ones.
    MakeFile,
    /// Connect to a port of this host.
    Connect,
    /// Run a program.
    Execute,
    /// Take more memory than the limit.
    Memory,
}

impl Probe {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::OpenFile,
        Self::MakeFile,
        Self::Connect,
        Self::Execute,
        Self::Memory,
    ];

    pub(super) fn attempt(self) -> Said {
        let result = match self {
            Self::OpenFile => std::fs::read("/etc/passwd").map(drop),
            Self::MakeFile => {
                let name = format!("drydock-probe-{}", std::process::id());
                std::fs::write(std::env::temp_dir().join(name), b"")
            }
            Self::Connect => {
                let address = SocketAddr::from(([127, 0, 0, 1], 9));
                match TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
                    // Nobody listens, but the host let us ask.
                    Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(()),
                    other => other.map(drop),
                }
            }
            Self::Execute => Command::new("/bin/true").status().map(drop),
            Self::Memory => {
                let mut hoard: Vec<u8> = Vec::new();
                hoard.try_reserve_exact(1 << 42).map_err(Error::other)
            }
        };
        Said::Tried {
            refused: result.is_err(),
            how: result.err().map_or_else(|| "done".to_owned(), |error| error.to_string()),
        }
    }
}
