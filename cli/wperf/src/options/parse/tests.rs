use super::*;
use crate::exit::Outcome;
use proptest::prelude::*;

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn strict(line: &str) -> Parsed {
    parse(&words(line), Compat::Off).unwrap()
}

fn refused(line: &str) -> Failure {
    parse(&words(line), Compat::Off).unwrap_err()
}

#[test]
fn words_stand_in_any_order() {
    let expected = strict("stat -e inst_spec,{ld_spec,st_spec} -c 0 --timeout 2 --json");
    for line in [
        "--json -c 0 stat --timeout 2 -e inst_spec,{ld_spec,st_spec}",
        "-e inst_spec,{ld_spec,st_spec} stat -c 0 --json sleep 2",
        "stat sleep 2 --cpu 0 -e inst_spec,{ld_spec,st_spec} --json",
    ] {
        assert_eq!(strict(line), expected, "{line}");
    }
    assert_eq!(expected.options.timeout, Some(Duration::from_secs(2)));
}

#[test]
fn what_is_behind_two_dashes_is_the_programs() {
    let parsed = strict("stat -e a -- prog --json -e b --unknown -- x");
    assert_eq!(
        parsed.options.program,
        words("prog --json -e b --unknown -- x")
    );
    assert!(!parsed.options.json);
    assert_eq!(refused("list -- prog").outcome, Outcome::Usage);
}

#[test]
fn repeated_event_options_accumulate() {
    assert_eq!(strict("stat -e a -e b,c").options.events, ["a", "b,c"]);
}

#[test]
fn every_command_word_leads_to_its_command() {
    for spec in COMMANDS {
        assert_eq!(strict(spec.word).command, spec.command);
    }
    for (line, command) in [
        ("", Command::Banner),
        ("-l", Command::List),
        ("-version", Command::Version),
        ("--version", Command::Version),
        ("-h", Command::Help),
        ("stat --help", Command::Help),
        ("lock --status", Command::Status),
    ] {
        assert_eq!(strict(line).command, command, "{line}");
    }
}

#[test]
fn a_line_of_windowsperf_for_sampling_is_understood() {
    let parsed = strict(
        "record -e ld_spec:100000 -c 1 --timeout 3 --pe_file x.exe --pdb_file x.pdb --image_name y.exe --sample-display-row 10 --sample-display-long -s ^x_ --record_spawn_delay 500 --disassemble --export_perf_data --export flame=f.svg -- prog",
    );
    assert_eq!(parsed.command, Command::Record);
    let sampling = parsed.options.sampling;
    assert_eq!(sampling.rows, Some(10));
    assert_eq!(sampling.symbol.as_deref(), Some("^x_"));
    assert_eq!(sampling.delay, Duration::from_millis(500));
    assert!(sampling.long_names && sampling.annotate && sampling.disassemble);
    let exports: Vec<_> = sampling.exports.iter().map(|e| e.format).collect();
    assert_eq!(exports, [Format::Flame, Format::Perf]);
    assert_eq!(strict("sample -e a").command, Command::Sample);
    assert_eq!(refused("sample -e a -- prog").outcome, Outcome::Usage);
    assert_eq!(refused("record --export svg=x").outcome, Outcome::Usage);
}

#[test]
fn unknown_options_and_words_are_errors() {
    let failure = refused("stat -e a --frobnicate");
    assert_eq!(failure.outcome, Outcome::Usage);
    assert!(failure.message.contains("--frobnicate"), "{failure}");
    assert!(refused("stat nonsense").message.contains("'nonsense'"));
    assert_eq!(refused("stat -e").outcome, Outcome::Usage);
    assert_eq!(refused("stat sleep").outcome, Outcome::Usage);
}

#[test]
fn in_compatibility_mode_they_are_ignored_with_windowsperfs_warning() {
    let line = "stat -e a --frobnicate -x nonsense -c 1 -- prog --own";
    let parsed = parse(&words(line), Compat::On).unwrap();
    assert_eq!(
        parsed.warnings,
        [
            "warning: unexpected arg '--frobnicate' ignored",
            "warning: unexpected arg '-x' ignored",
            "warning: unexpected arg 'nonsense' ignored",
        ]
    );
    let mut expected = strict("stat -e a -c 1 -- prog --own").options;
    expected.compat = true;
    assert_eq!(parsed.options, expected);
    let by_option = strict("--compat stat -e a --frobnicate");
    assert_eq!(by_option.warnings.len(), 1);
}

#[test]
fn man_takes_its_name_in_either_mode() {
    for compat in [Compat::Off, Compat::On] {
        let parsed = parse(&words("man armv8-a/ld_spec"), compat).unwrap();
        assert_eq!(parsed.options.operands, ["armv8-a/ld_spec"]);
        assert_eq!(parsed.command, Command::Man);
    }
}

#[test]
fn arguments_of_the_wrong_form_have_windowsperfs_messages() {
    insta::assert_snapshot!(refused("stat --timeout 2d30m").message, @r#"input: "2d30m" to argument '--timeout' is invalid"#);
    insta::assert_snapshot!(refused("stat --timeout -1").message, @r#"input: "-1" to argument '--timeout' is invalid"#);
    insta::assert_snapshot!(refused("stat -i .2m").message, @r#"input: ".2m" to argument '-i' is invalid"#);
    insta::assert_snapshot!(refused("stat -c a").message, @"option -c format not supported, use comma separated list of integers, or range of integers");
    insta::assert_snapshot!(refused("stat -n x").message, @r#"input: "x" to argument '-n' is invalid"#);
}

proptest! {
    #[test]
    fn no_words_make_it_panic(line in prop::collection::vec("-{0,2}[a-zA-Z0-9{},./=]{0,6}|stat|sleep|man|--", 0..8), compat in prop_oneof![Just(Compat::Off), Just(Compat::On)]) {
        let words: Vec<OsString> = line.iter().map(OsString::from).collect();
        let _ = parse(&words, compat);
    }

    #[test]
    fn in_compatibility_mode_no_unknown_option_is_an_error(unknown in "--[a-z]{3,8}") {
        prop_assume!(option(&OsString::from(&unknown)).is_none());
        let parsed = parse(&words(&format!("stat {unknown} -e a")), Compat::On).unwrap();
        prop_assert_eq!(parsed.warnings.len(), 1);
    }
}
