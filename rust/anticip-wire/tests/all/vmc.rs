//! VMC: assembly of frames from messages and bundles, and cut and damaged datagrams.

use crate::common::osc::{bone, bundle, bytes, full_pose, message, time, transform, turned};
use crate::common::{decode, is_close};
use crate::invariants::Updates;
use anticip_wire::vmc::{BONE_NAMES, BONES, VmcAssembler, encode_frame};
use anticip_wire::{PoseUpdate, Source, WireError};
use rosc::{OscPacket, OscType};

/// The frames that a bundle of these messages completes.
fn feed(assembler: &mut VmcAssembler, messages: Vec<OscPacket>) -> Vec<PoseUpdate> {
    let updates = decode(assembler, &bytes(&bundle(messages)));
    updates.unwrap().frames
}

#[test]
fn bundles_have_the_size_that_another_implementation_gives_them() {
    // python-osc builds 4588 bytes of the same messages, and 24 of them for the time.
    for (time, bytes) in [(Some(12.5), 4588), (None, 4564)] {
        let mut out = Vec::new();
        encode_frame(&PoseUpdate { time, ..full_pose() }, &mut out).unwrap();
        assert_eq!(out.len(), bytes);
    }
}

#[test]
fn an_encoded_frame_comes_back_bit_for_bit_and_rosc_reads_it_too() {
    let pose = full_pose();
    let mut out = Vec::new();
    encode_frame(&pose, &mut out).unwrap();
    let frames = decode(&mut VmcAssembler::default(), &out).unwrap().frames;
    assert_eq!(frames, [pose]);
    let (_, OscPacket::Bundle(read)) = rosc::decoder::decode_udp(&out).unwrap() else {
        panic!("no bundle")
    };
    assert_eq!((read.timetag.seconds, read.timetag.fractional), (0, 1));
    assert_eq!(read.content[0], message("/VMC/Ext/OK", vec![OscType::Int(1)]));
    assert_eq!(read.content[1], time(12.5));
    assert_eq!(
        read.content[2],
        transform("/VMC/Ext/Root/Pos", "root", &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    );
    assert_eq!(
        read.content[3],
        bone("Hips", &[0.0, 0.1, 0.0, 0.6, 0.0, 0.0, -0.8])
    );
    assert_eq!(read.content.len(), 3 + BONES);
    // rosc encodes the decoded packet to the same bytes.
    assert_eq!(bytes(&OscPacket::Bundle(read)), out);
}

#[test]
fn unity_axes_become_right_handed_ones() {
    // Unity: a quarter turn about +y takes +z (forward) to +x (right). Right-handed with z turned round:
    // forward -z goes to +x, which is a turn about y by minus a quarter.
    let h = 0.5f32.sqrt();
    let spine = bone("Spine", &[1.0, 2.0, 3.0, 0.0, h, 0.0, h]);
    let joint = feed(&mut VmcAssembler::default(), vec![spine])[0].joints[0];
    assert_eq!(joint.position, [1.0, 2.0, -3.0]);
    assert_eq!(joint.rotation, [-h, 0.0, h, -0.0]);
}

#[test]
fn the_root_carries_the_hips() {
    let h = 0.5f32.sqrt();
    let root = transform(
        "/VMC/Ext/Root/Pos",
        "root",
        // v2.1: scale and offset follow.
        &[10.0, 0.0, 0.0, 0.0, h, 0.0, h, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0],
    );
    let hips = bone("Hips", &[0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 1.0]);
    let pose = &feed(&mut VmcAssembler::default(), vec![root, hips])[0];
    // In Unity: (0,1,2) turned to (2,1,0), moved to (12,1,0).
    let place = pose.root.unwrap();
    assert!(is_close(&place, &[12.0, 1.0, 0.0], 1e-6), "{place:?}");
    let rotation = pose.joints[0].rotation;
    let positive = rotation.map(|v| v * rotation[0].signum());
    assert!(is_close(&positive, &[h, 0.0, -h, 0.0], 1e-6), "{rotation:?}");
}

#[test]
fn a_root_that_moves_is_the_hips_of_who_sends_none() {
    let root = |x: f32| transform("/VMC/Ext/Root/Pos", "root", &[x, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    let mut assembler = VmcAssembler::default();
    let mut roots = Vec::new();
    // A root counts only once it has left the origin.
    for place in [Some(0.0), Some(2.0), None, Some(0.0)] {
        let mut messages = vec![bone("Spine", &turned(0.1))];
        messages.extend(place.map(root));
        messages.push(time(roots.len() as f32));
        let pose = &feed(&mut assembler, messages)[0];
        roots.push((pose.root.map(|r| r[0]), pose.joint(0).map(|hips| hips.fresh)));
    }
    assert_eq!(
        roots,
        [
            (None, None),
            (Some(2.0), Some(true)),
            (Some(2.0), Some(false)),
            (Some(0.0), Some(true))
        ]
    );
}

#[test]
fn missing_bones_are_held_and_flagged() {
    let mut assembler = VmcAssembler::default();
    let whole = ["Hips", "Spine", "Head"].map(|name| bone(name, &turned(0.1)));
    let before = &feed(&mut assembler, whole.to_vec())[0];
    let part = vec![bone("Hips", &turned(1.1)), time(3.0)];
    let pose = &feed(&mut assembler, part)[0];
    let fresh: Vec<_> = pose.joints.iter().map(|joint| joint.fresh).collect();
    assert_eq!(fresh, [true, false, false]);
    assert_eq!(pose.joints[1].rotation, before.joints[1].rotation);
    assert_ne!(pose.joints[0].rotation, before.joints[0].rotation);
    assert_eq!(pose.time, Some(3.0));
}

#[test]
fn a_frame_may_come_in_several_bundles() {
    // As VirtualMotionCapture sends it (ExternalSender.cs): bones by dozens, then the rest of them, root, OK and time.
    let last = |frame: usize, bones: &[OscPacket]| {
        let rest = [bones, &[transform("/VMC/Ext/Root/Pos", "root", &turned(0.0))]].concat();
        vec![bundle(rest), bundle(vec![time(frame as f32)])]
    };
    for (layout, bundles_missed) in [
        ("vmc", 0),
        ("vmc", 2),
        ("time first", 0),
        ("no time", 0),
        ("no time", 1),
    ] {
        let mut assembler = VmcAssembler::default();
        for frame in 0..6 {
            let bones: Vec<_> = BONE_NAMES
                .iter()
                .map(|name| bone(name, &turned(frame as f32)))
                .collect();
            let mut parts: Vec<_> = bones.chunks(13).map(<[_]>::to_vec).collect();
            match layout {
                "vmc" => parts[4] = last(frame, &parts[4]),
                "time first" => parts[0].insert(0, time(frame as f32)),
                _ => {}
            }
            let mut frames = Vec::new();
            let missed = if frame == 0 { bundles_missed } else { 0 };
            for part in parts.into_iter().skip(missed) {
                frames.extend(feed(&mut assembler, part));
            }
            if frame < 3 {
                // By now it is known what a frame contains.
                continue;
            }
            // The frame is complete with its last bundle, and nothing else is.
            let [pose] = &frames[..] else {
                panic!("{layout} {frame}: {} frames", frames.len())
            };
            let expected = -turned(frame as f32)[6];
            let sent = (layout != "no time").then_some(frame as f64);
            assert_eq!(pose.time, sent, "{layout}");
            assert_eq!(pose.joints.len(), BONES);
            for joint in &pose.joints[1..] {
                assert!(joint.fresh && joint.rotation[0] == expected, "{layout} {frame}");
            }
        }
    }
}

#[test]
fn a_sender_without_known_bone_names_is_refused() {
    let mut assembler = VmcAssembler::default();
    let small = ["hips", "leftUpperArm"].map(|name| bone(name, &turned(0.1)));
    assert_eq!(feed(&mut assembler, small.to_vec())[0].joints.len(), 2);
    let mut words = vec![OscType::String("Hips".to_owned())];
    words.extend((0..7).map(|i| OscType::String(i.to_string())));
    assert_eq!(assembler.unplayed_reason(), None);
    for strange in [
        bone("J_Bip_C_Hips", &turned(0.0)),
        message("/VMC/Ext/Bone/Pos", words),
    ] {
        let result = decode(&mut assembler, &bytes(&bundle(vec![strange.clone()])));
        assert!(matches!(result, Err(WireError::Malformed { .. })), "{result:?}");
        // One readable bone is enough.
        feed(&mut assembler, vec![strange, bone("Hips", &turned(0.3))]);
        assert_eq!(
            assembler.unplayed_reason(),
            Some("a bone by a name that Unity's humanoid does not have")
        );
    }
}

#[test]
fn a_frame_that_an_unreadable_bone_completes_is_delivered() {
    let mut assembler = VmcAssembler::default();
    let hips = bytes(&bone("Hips", &turned(0.1)));
    assert_eq!(decode(&mut assembler, &hips).unwrap().frames, []);
    let mut updates = Updates::default();
    let unreadable = bundle(vec![time(2.0), bone("Hips", &[0.0; 6])]);
    let result = updates.decode(&mut assembler, &bytes(&unreadable));
    assert!(matches!(result, Err(WireError::Malformed { .. })), "{result:?}");
    assert_eq!(updates.frames.len(), 1);
}

#[test]
fn a_number_is_one_whatever_its_type() {
    // Some languages have only doubles, or send whole numbers as integers.
    let numbers: [fn(i32) -> OscType; 4] = [
        |v| OscType::Float(v as f32),
        OscType::Int,
        |v| OscType::Long(v.into()),
        |v| OscType::Double(v.into()),
    ];
    for (i, number) in numbers.into_iter().enumerate() {
        let integer_bone = |name: &str, values: [i32; 7]| {
            let mut arguments = vec![OscType::String(name.to_owned())];
            let types = (0..).map(|k| if k % 2 == 0 { number } else { numbers[(i + k) % 4] });
            arguments.extend(values.into_iter().zip(types).map(|(v, number)| number(v)));
            message("/VMC/Ext/Bone/Pos", arguments)
        };
        let mut assembler = VmcAssembler::default();
        let frame = |time| {
            let hips = integer_bone("Hips", [1, -2, 3, 0, 0, 0, 1]);
            vec![hips, integer_bone("Spine", [0, 4, 0, 0, -1, 0, 0]), time]
        };
        let pose = &feed(&mut assembler, frame(time(6.5)))[0];
        assert_eq!(pose.root, Some([1.0, -2.0, -3.0]));
        assert_eq!(pose.joints[1].rotation, [0.0, 0.0, -1.0, 0.0]);
        let whole = frame(message("/VMC/Ext/T", vec![number(7)]));
        assert_eq!(feed(&mut assembler, whole.clone())[0].time, Some(7.0));
        assert_eq!(assembler.unplayed_reason(), None);
        // A clock that sends only integers does not count seconds.
        let mut alone = VmcAssembler::default();
        feed(&mut alone, whole.clone());
        let expected = if i == 1 || i == 2 { None } else { Some(7.0) };
        assert_eq!(feed(&mut alone, whole)[0].time, expected);
    }
}

#[test]
fn wrong_messages_are_dropped_and_strangers_ignored() {
    let mut assembler = VmcAssembler::default();
    let mut flags = vec![OscType::String("Spine".to_owned())];
    flags.extend((0..7).map(|_| OscType::Bool(true)));
    let messages = vec![
        bone("Spine", &[0.0; 6]),
        message("/VMC/Ext/Bone/Pos", flags),
        message("/VMC/Ext/T", vec![OscType::Nil]),
        message("/VMC/Ext/T", vec![OscType::Float(f32::NAN)]),
        bone("Tail", &turned(0.0)),
        // These are no errors.
        bone("LastBone", &turned(0.0)),
        message(
            "/VMC/Ext/OK",
            vec![OscType::Int(1), OscType::Int(3), OscType::Int(0)],
        ),
        message(
            "/VMC/Ext/Blend/Val",
            vec![OscType::String("A".to_owned()), OscType::Float(0.5)],
        ),
        message("/VMC/Ext/Blend/Apply", vec![]),
        transform("/VMC/Ext/Hmd/Pos", "hmd", &turned(0.0)),
        message("/something/else", vec![OscType::Blob(vec![1, 2, 3])]),
        // No rotation: counted in the pose.
        bone("Neck", &[0.0; 7]),
        bone("Head", &turned(0.5)),
    ];
    let pose = &feed(&mut assembler, messages)[0];
    assert_eq!((pose.joints.len(), pose.unusable, pose.time), (1, 1, None));
    assert_eq!(
        assembler.unplayed_reason(),
        Some("a transform without a name and seven numbers")
    );
}

#[test]
fn bones_that_are_left_out_are_no_errors_when_they_come_alone() {
    let mut assembler = VmcAssembler::default();
    for name in ["LastBone", "leftThumbMetacarpal", "RightThumbMetacarpal"] {
        let updates = decode(&mut assembler, &bytes(&bone(name, &turned(0.5))));
        assert!(updates.expect("no error").frames.is_empty(), "{name}");
    }
    assert_eq!(assembler.unplayed_reason(), None);
    assert!(decode(&mut assembler, &bytes(&bone("Tail", &turned(0.5)))).is_err());
}

#[test]
fn cuts_are_refused_whole() {
    let mut whole = Vec::new();
    encode_frame(&full_pose(), &mut whole).unwrap();
    let mut assembler = VmcAssembler::default();
    // A cut between two elements is indistinguishable from a smaller bundle.
    let (mut ends, mut at) = (Vec::new(), 16);
    while let Some(size) = whole.get(at..at + 4) {
        ends.push(at);
        at += 4 + u32::from_be_bytes(size.try_into().unwrap()) as usize;
    }
    for end in 0..whole.len() {
        let result = decode(&mut assembler, &whole[..end]);
        match end {
            _ if ends.contains(&end) => assert!(result.is_ok()),
            _ if end < 8 => assert!(matches!(result, Err(WireError::Alien { .. }))),
            _ => assert!(matches!(result, Err(WireError::Truncated { .. })), "{end}"),
        }
    }
    let single = bytes(&bone("Hips", &turned(0.0)));
    for end in 1..single.len() {
        // A cut within the arguments leaves a message with too few of them.
        match decode(&mut assembler, &single[..end]) {
            Ok(updates) => assert!(updates.frames.is_empty()),
            Err(error) => assert!(matches!(
                error,
                WireError::Truncated { .. } | WireError::Malformed { .. }
            )),
        }
    }
    let expected = "VMC datagram";
    let alien = decode(&mut assembler, b"\x23\0\0\0head");
    assert_eq!(alien, Err(WireError::Alien { expected }));
}

#[test]
fn deep_nests_are_refused() {
    let mut packet = bundle(vec![bone("Hips", &turned(0.0))]);
    for _ in 0..8 {
        packet = bundle(vec![packet]);
    }
    let nested = bytes(&packet);
    // As deep as fits into a datagram: three thousand bundles.
    let mut raw: Vec<u8> = Vec::new();
    for level in (1..=3270u32).rev() {
        raw.extend_from_slice(b"#bundle\0\0\0\0\0\0\0\0\x01");
        raw.extend_from_slice(&((level - 1) * 20).to_be_bytes());
    }
    for data in [nested, raw] {
        let result = decode(&mut VmcAssembler::default(), &data);
        assert!(matches!(result, Err(WireError::Malformed { .. })));
    }
}
