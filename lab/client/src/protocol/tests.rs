use super::*;
use proptest::prelude::*;

fn access() -> impl Strategy<Value = Access> {
    any::<u32>().prop_map(Access)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

fn request() -> impl Strategy<Value = Request> {
    let handle = any::<u32>().prop_map(Handle);
    prop_oneof![
        any::<u32>().prop_map(|version| Request::Hello { version }),
        (".*", access()).prop_map(|(device, access)| Request::Open { device, access }),
        (handle.clone(), any::<u32>(), bytes(), any::<u32>()).prop_map(
            |(handle, code, input, output_len)| Request::Ioctl {
                handle,
                code,
                input,
                output_len
            }
        ),
        (handle.clone(), any::<u64>(), any::<u32>()).prop_map(|(handle, offset, len)| {
            Request::Read {
                handle,
                offset,
                len,
            }
        }),
        (handle.clone(), any::<u64>(), bytes()).prop_map(|(handle, offset, data)| {
            Request::Write {
                handle,
                offset,
                data,
            }
        }),
        handle.prop_map(|handle| Request::Close { handle }),
        (any::<u32>(), any::<u32>()).prop_map(|(cpu, pid)| Request::Attach { cpu, pid }),
        any::<u32>().prop_map(|cpu| Request::Detach { cpu }),
        Just(Request::Describe),
        Just(Request::Stop),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        (any::<u32>(), ".*").prop_map(|(version, driver)| Reply::Welcome { version, driver }),
        any::<u32>().prop_map(|h| Reply::Opened { handle: Handle(h) }),
        (any::<u32>(), any::<u64>(), bytes()).prop_map(|(status, information, output)| {
            Reply::Completed(Completion {
                status: NtStatus(status),
                information,
                output,
            })
        }),
        Just(Reply::Done),
        (".*", ".*", any::<u32>(), any::<u64>(), any::<u32>()).prop_map(
            |(driver, pmu_source, cpus, uptime_ms, open_handles)| Reply::Described(Description {
                driver,
                pmu_source,
                cpus,
                uptime_ms,
                open_handles
            })
        ),
        ".*".prop_map(|reason| Reply::Refused { reason }),
        ".*".prop_map(|report| Reply::Stopped { report }),
    ]
}

proptest! {
    #[test]
    fn a_request_survives_the_wire(request in request()) {
        let frame = encode(&request).unwrap();
        prop_assert_eq!(read_frame::<Request>(&mut frame.as_slice()).unwrap(), Some(request));
    }

    #[test]
    fn replies_survive_any_cutting_of_the_stream(replies in prop::collection::vec(reply(), 0..6), cut in 1_usize..40) {
        let wire: Vec<u8> = replies.iter().flat_map(|r| encode(r).unwrap()).collect();
        let mut decoder = Decoder::new();
        let mut received = Vec::new();
        for piece in wire.chunks(cut) {
            decoder.push(piece);
            while let Some(reply) = decoder.next_message::<Reply>().unwrap() {
                received.push(reply);
            }
        }
        prop_assert_eq!(received, replies);
        prop_assert_eq!(decoder.pending_bytes(), 0);
    }

    #[test]
    fn hostile_bytes_are_refused_without_a_panic(wire in prop::collection::vec(any::<u8>(), 0..200), cut in 1_usize..40) {
        let mut decoder = Decoder::new();
        'stream: for piece in wire.chunks(cut) {
            decoder.push(piece);
            loop {
                match decoder.next_message::<Request>() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => break 'stream,
                }
            }
        }
        let mut stream = wire.as_slice();
        while let Ok(Some(_)) = read_frame::<Reply>(&mut stream) {}
    }

    #[test]
    fn a_hostile_message_in_a_proper_frame_is_refused_without_a_panic(message in prop::collection::vec(any::<u8>(), 1..200)) {
        let _ = decode::<Request>(&message);
        let _ = decode::<Reply>(&message);
    }
}

#[test]
fn a_length_over_the_limit_is_refused_before_its_bytes_arrive() {
    let mut decoder = Decoder::new();
    decoder.push(&u32::MAX.to_le_bytes());
    assert!(matches!(
        decoder.next_message::<Reply>(),
        Err(FrameError::TooLong { .. })
    ));
}

#[test]
fn a_message_over_the_limit_is_not_sent() {
    let request = Request::Write {
        handle: Handle(0),
        offset: 0,
        data: vec![0; MAX_FRAME],
    };
    assert!(matches!(encode(&request), Err(FrameError::TooLong { .. })));
}

#[test]
fn stray_bytes_after_a_message_are_refused() {
    let mut frame = encode(&Request::Stop).unwrap();
    frame.push(7);
    let len = u32::try_from(frame.len() - 4).unwrap();
    frame[..4].copy_from_slice(&len.to_le_bytes());
    assert!(matches!(
        read_frame::<Request>(&mut frame.as_slice()),
        Err(FrameError::Trailing { len: 1, .. })
    ));
}

#[test]
fn a_connection_closed_inside_a_frame_is_told_from_one_closed_between_frames() {
    let frame = encode(&Request::Describe).unwrap();
    assert!(matches!(
        read_frame::<Request>(&mut &frame[..frame.len() - 1]),
        Err(FrameError::Truncated)
    ));
    assert!(matches!(
        read_frame::<Request>(&mut [].as_slice()),
        Ok(None)
    ));
}

#[test]
fn a_forged_buffer_length_inside_a_message_allocates_nothing() {
    // Ioctl, handle 0, code 0, then a byte string that claims 2^32 - 1 bytes.
    let message = [2, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F];
    assert!(matches!(
        decode::<Request>(&message),
        Err(FrameError::Malformed {
            what: "Request",
            ..
        })
    ));
}
