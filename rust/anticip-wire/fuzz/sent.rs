//! Structured inputs: bodies, frames and records from the fuzzer's bytes, encoded as by a sender, then damaged in a few
//! places, and decoded in sequence by one decoder.

use anticip_wire::{
    Joint, PROTOCOLS, PoseUpdate, SkeletonUpdate, Tracker, WireError, axis, mocopi, native, natnet,
    recognise, recording, rokoko, vmc, vrchat, xsens,
};
use arbitrary::{Result, Unstructured};

use crate::invariants;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// All fuzz targets, by the name of their folder of seeds.
pub const TARGETS: [(&str, Target); 10] = [
    ("axis", invariants::axis),
    ("mocopi", invariants::mocopi),
    ("native", invariants::native),
    ("natnet", invariants::natnet),
    ("recording", invariants::recording),
    ("rokoko", invariants::rokoko),
    ("sent", |data| {
        let _ = run(data);
    }),
    ("vmc", invariants::vmc),
    ("vrchat", invariants::vrchat),
    ("xsens", invariants::xsens),
];

/// Runs the fuzzer's bytes as a stream of one protocol, or as a recording.
pub fn run(data: &[u8]) -> Result<()> {
    let mut u = Unstructured::new(data);
    let Some(protocol) = PROTOCOLS.get(u.choose_index(PROTOCOLS.len() + 1)?) else {
        return records(&mut u);
    };
    let known = TARGETS.iter().find(|(name, _)| *name == protocol.name);
    let target = known.map_or(invariants::native as Target, |(_, target)| *target);
    let mut source = (protocol.open)();
    let skeleton = skeleton(&mut u)?;
    while !u.is_empty() {
        let mut bytes = Vec::new();
        if datagram(protocol.name, &skeleton, &mut u, &mut bytes)?.is_err() {
            bytes.clear();
        }
        damage(&mut u, &mut bytes)?;
        target(&bytes);
        let _ = invariants::Updates::default().decode(source.as_mut(), &bytes);
        let _ = recognise(&bytes);
    }
    Ok(())
}

/// A recording with random payloads.
fn records(u: &mut Unstructured<'_>) -> Result<()> {
    let mut bytes = recording::header().to_vec();
    while !u.is_empty() {
        let length = u.int_in_range(1..=300)?;
        let payload = u.bytes(length.min(u.len()))?;
        let _ = recording::push(payload, &mut bytes);
    }
    invariants::recording(&bytes);
    Ok(())
}

/// Encodes a frame or the skeleton in a protocol.
fn datagram(
    kind: &str,
    skeleton: &SkeletonUpdate,
    u: &mut Unstructured<'_>,
    out: &mut Vec<u8>,
) -> Result<std::result::Result<(), WireError>> {
    // A skeleton rather than a frame; for VRChat, trackers with rotations.
    let is_variant = u.ratio(1, 4)?;
    let pose = pose(u, skeleton.len())?;
    Ok(match kind {
        "mocopi" if is_variant => mocopi::encode_skeleton(skeleton, out),
        "mocopi" => mocopi::encode_frame(&pose, u.arbitrary()?, u.arbitrary()?, out),
        "vmc" => vmc::encode_frame(&pose, out),
        "xsens" => xsens::encode_frame(&pose, out),
        "rokoko" => rokoko::encode_frame(&pose, 60.0, out),
        "axis" => axis::encode_frame(&pose, out),
        "natnet" if is_variant => natnet::encode_skeleton(skeleton, out),
        "natnet" => natnet::encode_frame(&pose, &skeleton.parents, out),
        "vrchat" => {
            let tracker = |joint: &Joint| Tracker {
                name: String::new(),
                rotation: is_variant.then_some(joint.rotation),
                position: Some(joint.position),
            };
            vrchat::encode_frame(&pose.joints.iter().take(9).map(tracker).collect::<Vec<_>>(), out)
        }
        _ if is_variant => native::encode_skeleton(skeleton, out),
        _ => {
            let quats: Vec<_> = pose.joints.iter().map(|joint| joint.rotation).collect();
            native::encode_frame(pose.seq.unwrap_or(0), u.arbitrary()?, &quats, pose.root, out)
        }
    })
}

/// A skeleton with a random tree, parents first.
fn skeleton(u: &mut Unstructured<'_>) -> Result<SkeletonUpdate> {
    let joints = u.int_in_range(1..=60)?;
    let parents: Result<Vec<i32>> = (0..joints)
        .map(|id| Ok(if id == 0 { -1 } else { u.int_in_range(0..=id - 1)? }))
        .collect();
    let (offsets, rest) = (0..joints)
        .map(|_| Ok((numbers(u)?, numbers(u)?)))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .unzip();
    Ok(SkeletonUpdate {
        names: (0..joints).map(|id| format!("joint {id}")).collect(),
        parents: parents?,
        offsets,
        rest,
        rate: u.arbitrary()?,
    })
}

/// A frame of most joints, in order.
fn pose(u: &mut Unstructured<'_>, joints: usize) -> Result<PoseUpdate> {
    let mut pose_joints = Vec::new();
    for id in 0..joints as u16 {
        if u.is_empty() || u.ratio(7, 8)? {
            let id = if u.ratio(1, 30)? { u.arbitrary()? } else { id };
            pose_joints.push(Joint::new(id, numbers(u)?, numbers(u)?));
        }
    }
    Ok(PoseUpdate {
        seq: u.arbitrary()?,
        time: u.arbitrary()?,
        root: Some(numbers(u)?),
        joints: pose_joints,
        ..PoseUpdate::default()
    })
}

/// Numbers of ordinary size, sometimes arbitrary ones.
fn numbers<const N: usize>(u: &mut Unstructured<'_>) -> Result<[f32; N]> {
    let mut out = [0.5; N];
    for value in &mut out {
        *value = if u.ratio(1, 30)? {
            f32::from_bits(u.arbitrary()?)
        } else {
            f32::from(u.arbitrary::<i8>()?) / 64.0
        };
    }
    Ok(out)
}

/// Overwrites, removes or inserts bytes in a few places, or truncates.
fn damage(u: &mut Unstructured<'_>, bytes: &mut Vec<u8>) -> Result<()> {
    for _ in 0..u.int_in_range(0..=3)? {
        let at = u.choose_index(bytes.len().max(1))?;
        let some = (at + u.int_in_range(1..=8)?).min(bytes.len());
        match u.int_in_range(0..=4)? {
            0 if at < bytes.len() => bytes[at] = u.arbitrary()?,
            1 => drop(bytes.drain(at.min(some)..some)),
            2 => drop(bytes.splice(at.min(some)..at.min(some), u.arbitrary::<[u8; 4]>()?)),
            3 => bytes.truncate(at),
            _ => bytes[at.min(some)..some].fill(u.arbitrary()?),
        }
    }
    Ok(())
}
