//! A dock lives through whatever its clients send, and through their deaths.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use e2e::scene::{CORES, valid_input};
use e2e::served::Served;
use faulty_driver::{DEVICE, Fault};
use lab_client::protocol::{
    Access, Handle, MAX_FRAME, PROTOCOL_VERSION, Reply, Request, encode, read_frame, write_frame,
};
use lab_client::{Client, ClientError};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use wperf_abi::{CLIENT_PATH, Ioctl};

fn connect(served: &Served) -> UnixStream {
    let stream = UnixStream::connect(served.socket()).expect("the dock listens");
    let patience = Some(Duration::from_secs(10));
    stream.set_read_timeout(patience).expect("a socket");
    stream
}

fn ask(mut stream: &UnixStream, request: &Request) -> Reply {
    write_frame(&mut stream, request).expect("the dock reads");
    let reply = read_frame(&mut stream).expect("a frame");
    reply.expect("a reply")
}

/// A connection that is introduced and has the device open.
fn opened(served: &Served) -> (UnixStream, Handle) {
    let stream = connect(served);
    let welcome = ask(&stream, &hello(PROTOCOL_VERSION));
    assert!(matches!(welcome, Reply::Welcome { .. }), "{welcome:?}");
    let open = Request::Open {
        device: CLIENT_PATH.into(),
        access: Access::READ_WRITE,
    };
    match ask(&stream, &open) {
        Reply::Opened { handle } => (stream, handle),
        other => panic!("{other:?}"),
    }
}

const fn hello(version: u32) -> Request {
    Request::Hello { version }
}

fn ioctl(handle: Handle, ioctl: Ioctl, output_len: u32) -> Request {
    Request::Ioctl {
        handle,
        code: ioctl.code(),
        input: valid_input(ioctl),
        output_len,
    }
}

/// The dock answers and nobody holds a core.
fn assert_lives_and_is_free(served: &Served) {
    let (stream, handle) = opened(served);
    let acquired = ask(&stream, &ioctl(handle, Ioctl::Acquire, 64));
    assert!(
        matches!(&acquired, Reply::Completed(completion) if completion.status.is_success()),
        "{acquired:?}"
    );
}

/// What the dock says until it closes the connection.
fn rest(mut stream: UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end too: the dock does not read what it will not answer.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

#[test]
fn a_frame_that_is_too_long_or_empty_ends_its_connection_only() {
    let served = Served::start(&["--pmu", "model"]);
    let too_long = u32::try_from(MAX_FRAME + 1).expect("four bytes");
    for len in [0, too_long, u32::MAX] {
        let mut stream = connect(&served);
        stream
            .write_all(&len.to_le_bytes())
            .expect("the dock reads");
        let said = rest(stream);
        assert!(!said.is_empty(), "a refusal says why: length {len}");
        assert_lives_and_is_free(&served);
    }
    served.end();
}

#[test]
fn another_version_of_the_protocol_is_refused_in_words() {
    let served = Served::start(&["--pmu", "model"]);
    let stream = connect(&served);
    match ask(&stream, &hello(PROTOCOL_VERSION + 1)) {
        Reply::Refused { reason } => assert!(reason.contains("version"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert!(rest(stream).is_empty());
    let rude = connect(&served);
    let reply = ask(&rude, &Request::Describe);
    assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    served.end();
}

#[test]
fn a_handle_is_of_the_connection_that_opened_it() {
    let served = Served::start(&["--pmu", "model"]);
    let (first, handle) = opened(&served);
    let (second, other) = opened(&served);
    assert_ne!(handle, other);
    for request in [
        ioctl(handle, Ioctl::QueryVersion, 64),
        Request::Close { handle },
        Request::Read {
            handle,
            offset: 0,
            len: 8,
        },
    ] {
        let reply = ask(&second, &request);
        assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    }
    let reply = ask(&first, &ioctl(handle, Ioctl::QueryVersion, 64));
    assert!(matches!(reply, Reply::Completed(_)), "{reply:?}");
    served.end();
}

#[test]
fn an_output_buffer_beyond_the_limit_is_refused() {
    let served = Served::start(&["--pmu", "model"]);
    let (stream, handle) = opened(&served);
    for len in [u32::MAX, 4 << 20] {
        let reply = ask(&stream, &ioctl(handle, Ioctl::QueryVersion, len));
        assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    }
    served.end();
}

#[test]
fn a_client_that_ends_at_any_byte_of_a_request_leaves_nothing_held() {
    let served = Served::start(&["--pmu", "model"]);
    let start = |handle| encode(&ioctl(handle, Ioctl::Start, 0)).expect("a frame");
    let whole = start(Handle(1)).len();
    for end in 0..=whole {
        let (mut stream, handle) = opened(&served);
        for call in [Ioctl::Acquire, Ioctl::Assign] {
            let reply = ask(&stream, &ioctl(handle, call, 64));
            assert!(
                matches!(&reply, Reply::Completed(completion) if completion.status.is_success()),
                "{call:?} after a death at byte {end}: {reply:?}"
            );
        }
        let bytes = start(handle);
        stream
            .write_all(&bytes[..end.min(bytes.len())])
            .expect("the dock reads");
        drop(stream);
    }
    assert_lives_and_is_free(&served);
    served.end();
}

#[test]
fn many_clients_at_once_are_all_answered() {
    let served = Served::start(&["--pmu", "model"]);
    let mut clients: Vec<_> = (0..100).map(|_| opened(&served)).collect();
    for (stream, handle) in &mut clients {
        write_frame(stream, &ioctl(*handle, Ioctl::QueryOwnership, 4096)).expect("sent");
    }
    for (stream, _) in &mut clients {
        let reply: Option<Reply> = read_frame(stream).expect("a frame");
        assert!(matches!(reply, Some(Reply::Completed(_))), "{reply:?}");
    }
    drop(clients);
    assert_lives_and_is_free(&served);
    served.end();
}

#[test]
fn a_driver_that_breaks_a_rule_ends_the_dock_and_every_client_is_told() {
    let mut served = Served::dock("faulty-driver", &[]);
    let (one, other) = (served.client(), served.client());
    let (one, other) = (one.expect("a client"), other.expect("a client"));
    let open = |client: &Client| client.open(DEVICE, Access::READ_WRITE).expect("opens");
    let (handle, waiting) = (open(&one), open(&other));
    let echoed = other.ioctl(waiting, Fault::Echo.code(), b"abc", 3);
    assert_eq!(echoed.expect("completed").output, b"abc");
    let broken = one.ioctl(handle, Fault::NullWrite.code(), &[], 0);
    let told = other.ioctl(waiting, Fault::Echo.code(), b"abc", 3);
    for answer in [broken, told] {
        match answer {
            Err(ClientError::Stopped(report)) => {
                assert!(report.contains("null_write"), "{report}");
            }
            other => panic!("{other:?}"),
        }
    }
    let (code, log) = served.ended();
    assert_eq!(code, Some(4), "{log}");
    assert!(
        log.contains("null_write") && !log.contains("panicked"),
        "{log}"
    );
}

fn request() -> impl Strategy<Value = Request> {
    let handle = || prop_oneof![Just(Handle(1)), any::<u32>().prop_map(Handle)];
    let bytes = || proptest::collection::vec(any::<u8>(), 0..64);
    let code = prop_oneof![
        any::<u32>(),
        proptest::sample::select(Ioctl::ALL.to_vec()).prop_map(Ioctl::code)
    ];
    prop_oneof![
        any::<u32>().prop_map(hello),
        (".{0,20}", any::<u32>()).prop_map(|(device, access)| Request::Open {
            device,
            access: Access(access)
        }),
        (handle(), code, bytes(), 0..8192u32).prop_map(|(handle, code, input, output_len)| {
            Request::Ioctl {
                handle,
                code,
                input,
                output_len,
            }
        }),
        (handle(), any::<u64>(), any::<u32>()).prop_map(|(handle, offset, len)| Request::Read {
            handle,
            offset,
            len
        }),
        (handle(), any::<u64>(), bytes()).prop_map(|(handle, offset, data)| Request::Write {
            handle,
            offset,
            data
        }),
        handle().prop_map(|handle| Request::Close { handle }),
        any::<u32>().prop_map(|cpu| Request::Detach { cpu }),
        (any::<u32>(), any::<u32>()).prop_map(|(cpu, pid)| Request::Attach { cpu, pid }),
    ]
}

/// Requests that make no sense, and bytes that are no requests.
fn nonsense() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        request().prop_map(|request| encode(&request).unwrap_or_default()),
        proptest::collection::vec(any::<u8>(), 1..64),
        (request(), any::<proptest::sample::Index>(), any::<u8>()).prop_map(
            |(request, at, byte)| {
                let mut bytes = encode(&request).unwrap_or_default();
                let at = at.index(bytes.len());
                bytes[at] = byte;
                bytes
            }
        ),
    ]
}

#[test]
fn nonsense_from_one_client_does_not_disturb_another() {
    let served = Served::start(&["--pmu", "model"]);
    let (owner, owned) = opened(&served);
    for call in [Ioctl::Acquire, Ioctl::Assign, Ioctl::Start] {
        ask(&owner, &ioctl(owned, call, 64));
    }
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(400)
    };
    proptest!(config, |(messages in proptest::collection::vec(nonsense(), 1..8), greet in any::<bool>())| {
        let mut stream = connect(&served);
        if greet {
            write_frame(&mut stream, &hello(PROTOCOL_VERSION)).expect("sent");
        }
        for message in messages {
            // The dock may have ended the conversation.
            if stream.write_all(&message).is_err() {
                break;
            }
        }
        drop(stream);
        let reply = ask(&owner, &ioctl(owned, Ioctl::Read, 4096));
        let counts = matches!(&reply, Reply::Completed(completion) if completion.status.is_success());
        assert!(counts, "core {}: {reply:?}", CORES[0]);
    });
    served.end();
}
