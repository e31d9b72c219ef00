//! NatNet, written field by field as the SDK's direct-depacketisation samples read it, for 3.1, 4.0, 4.1 and 4.2.

use crate::common::{decode, is_close};
use crate::invariants::Updates;
use anticip_wire::natnet::NatnetDecoder;
use anticip_wire::{Source, Update, WireError, recognise};

/// A byte builder.
#[derive(Default, Clone)]
struct Out(Vec<u8>);

impl Out {
    fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }
    fn short(mut self, value: i16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }
    fn floats(mut self, values: &[f32]) -> Self {
        values.iter().for_each(|v| self.0.extend(v.to_le_bytes()));
        self
    }
    fn text(mut self, text: &str) -> Self {
        self.0.extend(text.bytes().chain([0]));
        self
    }
    fn add(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
    /// A section with its count and, since 4.1, its size.
    fn section(self, version: u8, count: i32, things: Self) -> Self {
        let out = self.int(count);
        let out = if version >= 41 {
            out.int(things.0.len() as i32)
        } else {
            out
        };
        out.add(things)
    }
    fn message(self, kind: u16) -> Vec<u8> {
        let mut out = kind.to_le_bytes().to_vec();
        out.extend((self.0.len() as u16).to_le_bytes());
        out.extend(self.0);
        out
    }
}

const NAMES: [&str; 3] = ["Hip", "Ab", "Chest"];
const OFFSET: [f32; 3] = [0.0, 0.1, 0.02];
/// The rotation of a definition since 4.2.
const TURN: [f32; 4] = [0.0, 0.0, 0.0, 1.0];

fn rigid(id: i32, place: [f32; 3], turn: [f32; 4], tracked: bool) -> Out {
    Out::default()
        .int(id)
        .floats(&place)
        .floats(&turn)
        .floats(&[0.001])
        .short(i16::from(tracked))
}

/// A chain of three bones, each rotated about x relative to its parent (`half` is half the angle), in world or local
/// coordinates.
fn frame(version: u8, number: i32, half: f32, local: bool) -> Vec<u8> {
    let turn = |times: f32| [(half * times).sin(), 0.0, 0.0, (half * times).cos()];
    let (s, c) = ((2.0 * half).sin(), (2.0 * half).cos());
    let up = [0.0, OFFSET[1] * c - OFFSET[2] * s, OFFSET[1] * s + OFFSET[2] * c];
    let bones = if local {
        [
            ([1.0, 0.9, 2.0], turn(1.0)),
            (OFFSET, turn(1.0)),
            (OFFSET, turn(1.0)),
        ]
    } else {
        let (s2, c2) = ((4.0 * half).sin(), (4.0 * half).cos());
        let second = [1.0, 0.9 + up[1], 2.0 + up[2]];
        let third = [
            1.0,
            second[1] + OFFSET[1] * c2 - OFFSET[2] * s2,
            second[2] + OFFSET[1] * s2 + OFFSET[2] * c2,
        ];
        [
            ([1.0, 0.9, 2.0], turn(1.0)),
            (second, turn(2.0)),
            (third, turn(3.0)),
        ]
    };
    let mut skeleton = Out::default().int(3).int(3);
    for (n, (place, turn)) in bones.into_iter().enumerate() {
        skeleton = skeleton.add(rigid((3 << 16) | (n as i32 + 1), place, turn, true));
    }
    let markers = Out::default().text("all").int(2).floats(&[0.5; 6]);
    let labelled = Out::default().int(9).floats(&[0.1; 4]).short(2).floats(&[0.0]);
    let plate = Out::default()
        .int(1)
        .int(2)
        .int(1)
        .floats(&[3.0])
        .int(1)
        .floats(&[4.0]);
    let sections = [
        (1, markers),
        (2, Out::default().floats(&[0.25; 6])),
        (1, rigid(7, [0.0; 3], [0.0, 0.0, 0.0, 1.0], true)),
        (1, skeleton),
        (1, labelled),
        (1, plate),
        (0, Out::default()),
    ];
    frame_of(version, number, 12.5, sections)
}

/// A frame of these sections; the assets, which come fifth since 4.1, are empty.
fn frame_of(version: u8, number: i32, seconds: f64, sections: [(i32, Out); 7]) -> Vec<u8> {
    let mut out = Out::default().int(number);
    for (index, (count, section)) in sections.into_iter().enumerate() {
        if index == 4 && version >= 41 {
            out = out.section(version, 0, Out::default());
        }
        out = out.section(version, count, section);
    }
    out = out.int(0).int(0);
    out.0.extend(seconds.to_le_bytes());
    out.0.extend([9; 24]);
    if version >= 41 {
        out = out.int(1).int(2);
    }
    out.short(0).int(0).message(7)
}

/// A skeleton's definition, optionally preceded by a prop with `markers` markers, each with or without its marker set.
fn definitions(version: u8, markers: i32, sets: bool) -> Vec<u8> {
    let body = |name: &str, id: i32, parent: i32, markers: i32| {
        let out = Out::default().text(name).int(id).int(parent).floats(&OFFSET);
        let out = if version >= 42 { out.floats(&TURN) } else { out };
        let mut out = out.int(markers);
        out.0.extend(vec![0; 16 * markers as usize]);
        let names = if version >= 40 { markers } else { 0 };
        (0..names).fold(out, |out, _| out.text("marker"))
    };
    let set = |name: &str, markers: i32| {
        let out = Out::default().text(name).int(markers);
        (0..markers).fold(out, |out, _| out.text("m1"))
    };
    let mut skeleton = Out::default().text("Dancer").int(3).int(3);
    for (n, name) in NAMES.iter().enumerate() {
        skeleton = skeleton.add(body(name, n as i32 + 1, n as i32, 1));
    }
    let mut all = vec![(2, skeleton)];
    if markers > 0 {
        all.insert(0, (1, body("Sword", 2, -1, markers)));
    }
    if sets {
        all.insert(all.len() - 1, (0, set("Sword", markers)));
        all.push((0, set("all", 1)));
    }
    let mut out = Out::default().int(all.len() as i32);
    for (kind, one) in all {
        out = out.int(kind);
        if version >= 41 {
            out = out.int(one.0.len() as i32);
        }
        out = out.add(one);
    }
    out.message(5)
}

#[test]
fn every_version_in_world_or_local_coordinates_agrees() {
    for version in [31, 40, 41, 42] {
        for local in [false, true] {
            let mut decoder = NatnetDecoder::default();
            let data = frame(version, 5, 0.2, local);
            assert_eq!(recognise(&data), Some("natnet"));
            // Nothing comes before the definitions.
            let definitions = definitions(version, 0, true);
            assert_eq!(recognise(&definitions), Some("natnet"));
            let mut updates = Updates::default();
            for bytes in [&data, &definitions] {
                assert_eq!(updates.decode(&mut decoder, bytes), Ok(()));
                assert_eq!(updates, Updates::default());
            }
            let Updates {
                skeletons, frames, ..
            } = decode(&mut decoder, &data).unwrap();
            assert_eq!(skeletons[0].names, NAMES);
            assert_eq!(skeletons[0].parents, [-1, 0, 1]);
            assert_eq!(skeletons[0].offsets, [OFFSET; 3]);
            let pose = &frames[0];
            assert_eq!((pose.seq, pose.time), (Some(5), Some(12.5)));
            assert_eq!(pose.root, Some([1.0, 0.9, 2.0]));
            assert_eq!(pose.joints.len(), 3);
            for joint in &pose.joints {
                let expected = [0.2_f32.cos(), 0.2_f32.sin(), 0.0, 0.0];
                assert!(is_close(&joint.rotation, &expected, 1e-5));
            }
        }
    }
}

#[test]
fn a_prop_of_any_markers_does_not_hide_the_skeleton_after_it() {
    for version in [31, 40, 41, 42] {
        for markers in 3..=9 {
            for sets in [false, true] {
                let mut decoder = NatnetDecoder::default();
                decode(&mut decoder, &definitions(version, markers, sets)).unwrap();
                let updates = decode(&mut decoder, &frame(version, 5, 0.2, false)).unwrap();
                let counts = [updates.skeletons.len(), updates.frames.len()];
                assert_eq!(counts, [1, 1], "{version} {markers} {sets}");
            }
        }
    }
}

/// Two rigid bodies and no skeleton; `seen`: whether the second is tracked.
fn bodies(version: u8, seen: bool) -> Vec<u8> {
    let two = rigid(7, [0.5, 1.5, 0.25], [0.0, 0.6, 0.0, 0.8], true);
    let two = two.add(rigid(9, [1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0], seen));
    scene(version, (2, two), (0, Out::default()))
}

/// A frame with the given rigid bodies and skeletons.
fn scene(version: u8, rigid: (i32, Out), skeletons: (i32, Out)) -> Vec<u8> {
    let none = || (0, Out::default());
    let sections = [none(), none(), rigid, skeletons, none(), none(), none()];
    frame_of(version, 6, 2.5, sections)
}

#[test]
fn rigid_bodies_are_trackers_without_a_skeleton() {
    for version in [31, 40, 41, 42] {
        let mut definitions_body = Out::default().int(2);
        for (id, name) in [(9, "Right Hand"), (7, "Head")] {
            let one = Out::default().text(name).int(id).int(-1).floats(&[0.0; 3]);
            let one = if version >= 42 { one.floats(&TURN) } else { one };
            let one = one.int(1).floats(&[0.1; 3]).int(0);
            let one = if version >= 40 { one.text("marker") } else { one };
            definitions_body = definitions_body.int(1);
            if version >= 41 {
                definitions_body = definitions_body.int(one.0.len() as i32);
            }
            definitions_body = definitions_body.add(one);
        }
        let (mut decoder, mut updates) = (NatnetDecoder::default(), Updates::default());
        for data in [
            bodies(version, true),
            definitions_body.message(5),
            bodies(version, true),
            bodies(version, false),
        ] {
            updates.decode(&mut decoder, &data).unwrap();
        }
        // Without names they are not delivered.
        let [first, second] = &updates.trackers[..] else {
            panic!("{updates:?}")
        };
        assert!(updates.skeletons.is_empty() && updates.frames.is_empty());
        assert_eq!((first.seq, first.time), (Some(6), Some(2.5)));
        assert_eq!(first.forward_axis, None);
        let [hand, head] = &first.trackers[..] else {
            panic!("{first:?}")
        };
        assert_eq!([&hand.name, &head.name], ["Right Hand", "Head"]);
        assert_eq!(head.position, Some([0.5, 1.5, 0.25]));
        assert_eq!(head.rotation, Some([0.8, 0.0, 0.6, 0.0]));
        assert_eq!(hand.position, Some([1.0; 3]));
        let lost = &second.trackers[0];
        assert_eq!((lost.position, lost.rotation), (None, None));
        assert_eq!(second.trackers[1], *head);
    }
}

#[test]
fn rigid_bodies_play_until_the_skeleton_that_is_defined_is_tracked() {
    let bone = Out::default().text("Hip").int(1).int(0).floats(&OFFSET);
    let skeleton = Out::default().text("Dancer").int(3).int(1).add(bone);
    let mut definitions_body = Out::default().int(2);
    let head = Out::default().text("Head").int(7).int(-1).floats(&[0.0; 3]);
    for (kind, one) in [(1, head), (2, skeleton)] {
        let one = one.int(0);
        definitions_body = definitions_body.int(kind).int(one.0.len() as i32).add(one);
    }
    let mut decoder = NatnetDecoder::default();
    let (two, whole) = (bodies(41, true), frame(41, 9, 0.1, false));
    let mut kinds = Vec::new();
    // After the frame, the skeleton may return.
    for data in [&definitions_body.message(5), &two, &whole, &two] {
        let collect = &mut |update: Update<'_>| {
            kinds.push(match update {
                Update::Trackers(_) => "trackers",
                Update::Skeleton(_) => "skeleton",
                Update::Frame(_) => "frame",
                Update::Late(_) => "late",
            });
        };
        decoder.decode(data, collect).unwrap();
    }
    assert_eq!(kinds, ["trackers", "skeleton", "frame"]);
}

/// A frame of skeletons with one bone each; a negative id means that it is not tracked.
fn skeletons(ids: &[i32]) -> Vec<u8> {
    let one = |out: Out, signed_id: &i32| {
        let id = signed_id.abs();
        let (place, turn) = ([id as f32; 3], [0.0, 0.0, 0.0, 1.0]);
        let bone = rigid((id << 16) | 1, place, turn, *signed_id > 0);
        out.add(Out::default().int(id).int(1).add(bone))
    };
    let all = ids.iter().fold(Out::default(), one);
    scene(41, (0, Out::default()), (ids.len() as i32, all))
}

#[test]
fn another_skeleton_takes_over_when_the_first_is_absent() {
    let bone = Out::default().text("Hip").int(1).int(0).floats(&OFFSET).int(0);
    let mut definitions_body = Out::default().int(2);
    for id in [3, 4] {
        let one = Out::default().text("Dancer").int(id).int(1).add(bone.clone());
        definitions_body = definitions_body.int(2).int(one.0.len() as i32).add(one);
    }
    let mut decoder = NatnetDecoder::default();
    decode(&mut decoder, &definitions_body.message(5)).unwrap();
    let mut received = |ids: &[i32]| {
        let updates = decode(&mut decoder, &skeletons(ids)).unwrap();
        let root = updates.frames.first().and_then(|pose| pose.root);
        (updates.skeletons.len(), root.map(|root| root[0]))
    };
    assert_eq!(received(&[3, 4]), (1, Some(3.0)));
    assert_eq!(received(&[4]), (0, None));
    assert_eq!(received(&[4, 3]), (0, Some(3.0)));
    for _ in 0..100 {
        assert_eq!(received(&[4]), (0, None));
        assert_eq!(received(&[-3, 4]), (0, None));
    }
    assert_eq!(received(&[-3, 4]), (1, Some(4.0)));
    assert_eq!(received(&[3, 4]), (0, Some(4.0)));
}

#[test]
fn malformed_messages_are_refused() {
    let error_of = |data: &[u8]| decode(&mut NatnetDecoder::default(), data).unwrap_err();
    let mut whole = frame(41, 0, 0.1, false);
    assert!(matches!(error_of(b"hello"), WireError::Alien { .. }));
    assert!(matches!(error_of(&whole[..60]), WireError::Truncated { .. }));
    whole[8..12].copy_from_slice(&i32::MAX.to_le_bytes());
    assert!(matches!(error_of(&whole), WireError::Malformed { .. }));
}
