use super::*;
use crate::profile::{Located, Mode, Module, ModuleId, Place, Sample, Source, module::Piece};
use linux_perf_data::{
    PerfFileReader, PerfFileRecord,
    linux_perf_event_reader::{EventRecord, RecordType},
};
use std::collections::BTreeMap;

/// Three samples of two events: in a module, in the kernel, and nowhere; not in the order of time.
fn profile() -> Profile {
    let source = |name: &str, code| Source {
        name: name.into(),
        code,
        interval: 1000,
    };
    let located = |time_ns, source, address, mode, place| Located {
        sample: Sample {
            time_ns,
            address,
            core: 3,
            source,
            pid: 70,
            tid: 71,
            mode,
        },
        place,
    };
    let module = Module {
        pid: 70,
        path: "/no/such/lib;x.so".into(),
        name: "lib;x.so".into(),
        base: 0x1000,
        pieces: vec![Piece {
            start: 0x1000,
            end: 0x9000,
            offset: 0,
        }],
    };
    Profile {
        sources: vec![source("cpu-cycles", 0x3C), source("inst_spec", 0x1B)],
        samples: vec![
            located(3_000, 0, 0x1234, Mode::User, Place::Module(ModuleId(0))),
            located(1_000, 1, 0xFFFF_8000_0000_0000, Mode::Kernel, Place::Kernel),
            located(2_000, 0, 0x77, Mode::User, Place::Unknown),
        ],
        modules: vec![module],
        processes: BTreeMap::from([(70, "prog".into())]),
    }
}

fn about() -> About {
    About {
        command: vec!["prog".into(), "a <b>".into()],
        start: SystemTime::UNIX_EPOCH,
        cores: 8,
        kernel: true,
    }
}

fn written(format: Format, profile: &Profile) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let export = Export {
        format,
        path: path.clone(),
    };
    write(&export, &path, profile, &mut Symbols::new(), &about()).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn another_reader_finds_every_record_of_perf_data() {
    let bytes = written(Format::Perf, &profile());
    let PerfFileReader {
        mut perf_file,
        mut record_iter,
    } = PerfFileReader::parse_file(io::Cursor::new(bytes)).unwrap();
    let names: Vec<_> = perf_file
        .event_attributes()
        .iter()
        .map(|a| a.name())
        .collect();
    assert_eq!(names, [Some("cpu-cycles"), Some("inst_spec")]);
    assert_eq!(perf_file.cmdline().unwrap().unwrap(), ["prog", "a <b>"]);
    assert_eq!(perf_file.arch().unwrap(), Some(std::env::consts::ARCH));
    assert_eq!(perf_file.nr_cpus().unwrap().unwrap().nr_cpus_online, 8);
    let range = perf_file.sample_time_range().unwrap().unwrap();
    assert_eq!(
        (range.first_sample_time, range.last_sample_time),
        (1_000, 3_000)
    );
    let mut samples = Vec::new();
    let mut others = Vec::new();
    while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
        let PerfFileRecord::EventRecord { attr_index, record } = record else {
            panic!("a record of perf's own");
        };
        match record.parse().unwrap() {
            EventRecord::Sample(s) => samples.push((
                attr_index,
                s.timestamp.unwrap(),
                s.ip.unwrap(),
                (s.pid.unwrap(), s.tid.unwrap(), s.cpu.unwrap()),
                s.period.unwrap(),
                record.misc & 7,
            )),
            EventRecord::Comm(comm) => {
                others.push(format!("{} {:?}", comm.pid, comm.name.as_slice()));
            }
            EventRecord::Mmap2(map) => {
                let path = String::from_utf8_lossy(&map.path.as_slice()).into_owned();
                others.push(format!("{:#x} {:#x} {path}", map.address, map.length));
            }
            _ => panic!("{:?}", RecordType(record.record_type.0)),
        }
    }
    let thread = (70, 71, 3);
    assert_eq!(
        samples,
        [
            (1, 1_000, 0xFFFF_8000_0000_0000, thread, 1000, 1),
            (0, 2_000, 0x77, thread, 1000, 2),
            (0, 3_000, 0x1234, thread, 1000, 2),
        ]
    );
    assert!(others[0].starts_with("70 "), "{others:?}");
    assert_eq!(others[1], "0x1000 0x8000 /no/such/lib;x.so");
}

#[test]
fn stacks_are_process_module_and_function_with_the_event_first_if_several() {
    let text = String::from_utf8(written(Format::Folded, &profile())).unwrap();
    assert_eq!(
        text,
        "cpu-cycles;prog;lib:x.so;unknown 1\ncpu-cycles;prog;unknown 1\ninst_spec;prog;[kernel] 1\n"
    );
    let mut one = profile();
    one.sources.truncate(1);
    one.samples.retain(|located| located.sample.source == 0);
    let text = String::from_utf8(written(Format::Folded, &one)).unwrap();
    assert_eq!(text, "prog;lib:x.so;unknown 1\nprog;unknown 1\n");
}

#[test]
fn the_flame_graph_is_a_picture_of_the_stacks_also_when_there_are_none() {
    let text = String::from_utf8(written(Format::Flame, &profile())).unwrap();
    assert!(text.contains("<svg") && text.contains("[kernel]") && text.contains("3 samples"));
    let mut empty = profile();
    empty.samples.clear();
    let text = String::from_utf8(written(Format::Flame, &empty)).unwrap();
    assert!(text.contains("prog a &lt;b>: no samples"), "{text}");
}

#[test]
fn the_firefox_profile_has_a_track_per_thread_and_a_stack_per_sample() {
    let bytes = written(Format::Firefox, &profile());
    let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let thread = &document["threads"][0];
    assert_eq!(thread["name"], "prog");
    assert_eq!(thread["tid"], "71");
    assert_eq!(thread["samples"]["length"], 3);
    let text = document.to_string();
    for name in ["[kernel]", "unknown", "lib;x.so", "cpu-cycles"] {
        assert!(text.contains(name), "{name}");
    }
}

#[test]
fn a_format_and_a_file_are_named_together() {
    let export = parse("flame=a=b.svg").unwrap();
    assert_eq!(export.format, Format::Flame);
    assert_eq!(export.path, Path::new("a=b.svg"));
    for text in ["flame", "flame=", "svg=x", ""] {
        assert!(parse(text).is_err(), "{text}");
    }
}
