//! The CSV file of a timeline: a head, then a row per count, written as it is made.

use super::stat::{Setup, StatReport};
use crate::{
    failure::{Failure, Result},
    options::Options,
    report::output::in_folder,
};
use jiff::Zoned;
use std::{
    fmt::Write as _,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

/// Placeholder in file names.
const TIMESTAMP: &str = "%Y_%m_%d_%H_%M_%S";

/// The file of a timeline; what was written stays when the process is killed.
pub struct Timeline {
    path: PathBuf,
    file: File,
    setup: Setup,
    interval: Duration,
    has_head: bool,
}

impl Timeline {
    /// Creates the file.
    ///
    /// Errors: it cannot be created.
    pub fn create(path: PathBuf, setup: Setup, interval: Duration) -> Result<Self> {
        let file = File::create(&path).map_err(|error| Failure::file(&path, &error))?;
        Ok(Self {
            path,
            file,
            setup,
            interval,
            has_head: false,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a count.
    ///
    /// Errors: the file cannot be written.
    pub fn push(&mut self, report: &StatReport) -> Result<()> {
        let mut text = String::new();
        if !self.has_head {
            text.push_str(&head(&self.setup, self.interval, report));
            self.has_head = true;
        }
        text.push_str(&values(&self.setup, report));
        let written = self.file.write_all(text.as_bytes());
        written
            .and_then(|()| self.file.flush())
            .map_err(|error| Failure::file(&self.path, &error))
    }
}

fn head(setup: &Setup, interval: Duration, report: &StatReport) -> String {
    let flag = |is_set: bool| if is_set { "TRUE" } else { "FALSE" };
    let mut text = format!(
        "Multiplexing,{}\nKernel mode,{}\nCount interval,{:.2}\nVendor,{}\nEvent class,core\n\n",
        flag(setup.multiplexed),
        flag(setup.kernel),
        interval.as_secs_f64(),
        setup.vendor.replace(',', " "),
    );
    let (mut cores, mut names) = (String::new(), String::new());
    let mut column = |core: u32, name: &str| {
        // Writing to a string cannot fail.
        let _ = write!(cores, "core {core},");
        let _ = write!(names, "{name},");
    };
    for (core, rows) in report.cores() {
        for row in rows {
            column(*core, row.name());
            if setup.multiplexed {
                column(*core, "sched_times");
            }
        }
    }
    for metric in report.metrics() {
        column(metric.core, &format!("M@{}", metric.name));
    }
    text.push_str(&format!("{cores}\n{names}\n"));
    text
}

fn values(setup: &Setup, report: &StatReport) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for row in report.cores().iter().flat_map(|(_, rows)| rows) {
        let _ = write!(text, "{},", row.value());
        if setup.multiplexed {
            let _ = write!(text, "{},", row.running_ms());
        }
    }
    for metric in report.metrics() {
        let _ = write!(text, "{:.3},", metric.value);
    }
    text.push('\n');
    text
}

/// Name of the file: as given, with placeholders replaced, else from cores and time.
#[must_use]
pub fn file_name(options: &Options, cores: &[u32], now: &Zoned) -> PathBuf {
    let stamp = now.strftime(TIMESTAMP).to_string();
    let first = cores.first().map(u32::to_string).unwrap_or_default();
    let by_output = || {
        let path = options.output.as_ref().filter(|_| !options.json)?;
        path.to_str().map(str::to_owned)
    };
    let name = match options.output_csv.clone().or_else(by_output) {
        Some(template) => template
            .replace("{timestamp}", &stamp)
            .replace("{class}", "core")
            .replace("{core}", &first),
        None if cores.len() == 1 => format!("wperf_core_{first}_{stamp}.core.csv"),
        None => format!("wperf_system_side_{stamp}.core.csv"),
    };
    in_folder(Path::new(&name), options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    #[test]
    fn file_names_are_made_from_cores_and_time_or_from_the_template() {
        let now = date(2026, 3, 1).at(12, 5, 9, 0).in_tz("UTC").unwrap();
        let name = |options: &Options, cores: &[u32]| {
            file_name(options, cores, &now)
                .to_string_lossy()
                .into_owned()
        };
        let mut options = Options::default();
        assert_eq!(
            name(&options, &[3]),
            "wperf_core_3_2026_03_01_12_05_09.core.csv"
        );
        assert_eq!(
            name(&options, &[0, 1]),
            "wperf_system_side_2026_03_01_12_05_09.core.csv"
        );
        options.output = Some("out.csv".into());
        assert_eq!(name(&options, &[0]), "out.csv");
        options.output_csv = Some("t_{timestamp}_{class}_{core}.csv".into());
        options.folder = Some("dir".into());
        assert_eq!(
            name(&options, &[5, 6]),
            "dir/t_2026_03_01_12_05_09_core_5.csv"
        );
        options.output_csv = None;
        options.json = true;
        options.folder = None;
        assert!(
            name(&options, &[0]).starts_with("wperf_core_0_"),
            "-o is for JSON then"
        );
    }
}
