//! A movement, and the datagrams of every protocol that carry it.

use anticip_geometry::Quat;
use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::{
    Distributor, FEATURE_COUNT, FrontConfig, FrontOutput, LiveFront, Skeleton, Source, standard,
};
use anticip_wire::{
    Joint, PROTOCOLS, PoseUpdate, SkeletonUpdate, WireError, mocopi, native, rokoko, vmc, xsens,
};

pub(crate) const MS: i64 = 1_000_000;
pub(crate) const WINDOW: usize = 32;

/// A movement of the canonical body.
pub(crate) fn canonical(t: f64) -> ([Quat; JOINT_COUNT], [f64; 3]) {
    let mut pose = [Quat::IDENTITY; JOINT_COUNT];
    for (j, q) in pose.iter_mut().enumerate() {
        let phase = t * (1.0 + 0.1 * j as f64);
        *q = Quat::from_axis_angle([0.3, 0.5, 0.1 * j as f64], 0.6 * phase.sin());
    }
    (pose, [0.2 * t.sin(), 0.95, 0.1 * t])
}

pub(crate) fn update(body: &Distributor, t: f64) -> PoseUpdate {
    let (pose, hips) = canonical(t);
    let mut local = vec![Quat::IDENTITY; body.joints()];
    let root = body.apply(&pose, hips, &mut local).map(|v| v as f32);
    let joints = local.iter().zip(0u16..).map(|(q, id)| {
        let position = if id == 0 { root } else { [0.0; 3] };
        Joint::new(id, q.to_array().map(|v| v as f32), position)
    });
    PoseUpdate {
        root: Some(root),
        joints: joints.collect(),
        ..PoseUpdate::default()
    }
}

/// The datagram that `encode` writes.
pub(crate) fn encoded(encode: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out).expect("encodes");
    out
}

/// Frame `number` of the native protocol.
pub(crate) fn native_frame(number: u32, t: f64, pose: &PoseUpdate) -> Vec<u8> {
    let quats: Vec<[f32; 4]> = pose.joints.iter().map(|j| j.rotation).collect();
    encoded(|out| native::encode_frame(number, t, &quats, pose.root, out))
}

/// A skeleton as a sender declares it.
pub(crate) fn declaration(skeleton: &Skeleton, rate: Option<f64>) -> SkeletonUpdate {
    SkeletonUpdate {
        names: skeleton.names.clone(),
        parents: skeleton.parents.clone(),
        offsets: skeleton.offsets.iter().map(|o| o.map(|v| v as f32)).collect(),
        rest: vec![[1.0, 0.0, 0.0, 0.0]; skeleton.len()],
        rate,
    }
}

/// Creates datagrams of one protocol.
pub(crate) struct Sender {
    pub source: Source,
    pub body: Distributor,
    offsets: Vec<[f64; 3]>,
}

impl Sender {
    pub(crate) fn new(source: Source) -> Self {
        let skeleton = match source {
            Source::Mocopi => standard::mocopi(),
            Source::Vmc => standard::vmc(),
            Source::Msgpack => standard::canonical(),
            Source::Other(index) => standard::by_name(PROTOCOLS[index].name).expect("a body of its own"),
        };
        let body = Distributor::compile(&skeleton).expect("maps");
        let offsets = skeleton.offsets;
        Self {
            source,
            body,
            offsets,
        }
    }

    /// Frame `number` of a source that has run for `t` seconds.
    pub(crate) fn frame(&self, number: u32, t: f64) -> Vec<u8> {
        let mut pose = update(&self.body, t);
        (pose.seq, pose.time) = (Some(number), Some(t));
        match self.source {
            Source::Mocopi => encoded(|out| mocopi::encode_frame(&pose, 0, Some(1.7e9 + t), out)),
            Source::Vmc => encoded(|out| vmc::encode_frame(&pose, out)),
            Source::Msgpack => native_frame(number, t, &pose),
            Source::Other(index) => {
                for joint in pose.joints.iter_mut().skip(1) {
                    joint.position = self.offsets[usize::from(joint.id)].map(|v| v as f32);
                }
                encoded(|out| match PROTOCOLS[index].name {
                    "xsens" => xsens::encode_frame(&pose, out),
                    _ => rokoko::encode_frame(&pose, 60.0, out),
                })
            }
        }
    }

    /// Frames of a stream of `rate` a second.
    pub(crate) fn stream(&self, frames: u32, rate: f64) -> Vec<Vec<u8>> {
        (0..frames).map(|i| self.frame(i, f64::from(i) / rate)).collect()
    }
}

pub(crate) fn front(source: Source) -> LiveFront {
    let config = FrontConfig {
        window: WINDOW,
        ..FrontConfig::default()
    };
    LiveFront::new(source, config).expect("options")
}

pub(crate) fn feed_all(front: &mut LiveFront, datagrams: &[Vec<u8>]) -> Vec<FrontOutput> {
    let mut out = Vec::new();
    for (i, datagram) in datagrams.iter().enumerate() {
        out.extend(front.feed(datagram, i as i64 * 20 * MS, "").cloned());
    }
    out
}

pub(crate) fn rows(outputs: &[FrontOutput]) -> Vec<[u32; FEATURE_COUNT]> {
    outputs
        .iter()
        .flat_map(|o| &o.rows)
        .map(|r| r.map(f32::to_bits))
        .collect()
}
