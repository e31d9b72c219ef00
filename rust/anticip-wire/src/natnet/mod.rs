//! OptiTrack Motive: NatNet 3.0 to 4.2, skeletons of the multicast data stream, UDP port 1511.
//!
//! Little-endian. Every message starts with u16 kind and u16 length of the rest. A frame of mocap data (kind 7) has an
//! i32 number, then sections, each with an i32 count (since 4.1 followed by the section's i32 size in bytes): marker
//! sets, other markers, rigid bodies, skeletons, assets (since 4.1), labelled markers, force plates, devices; then time
//! code, f64 seconds, camera stamps, flags. A rigid body and a bone have the same 38 bytes: i32 id, `x y z` metres,
//! `x y z w`, f32 error, i16 flags (1: tracked); the high half of a bone's id is its skeleton's. A frame does not say
//! whether its sections carry sizes: it has them if it can be read with them.
//!
//! Names, parents and offsets come as model definitions (kind 5), which a client requests (kind 4, to port 1510). Bones
//! are in world or parent-local coordinates, depending on Motive's *Skeleton Coordinates*; the definitions' offsets
//! show which. Axes are right-handed, y up; in T-pose every bone's rotation is the identity. Only one skeleton is
//! decoded: the first, until it has been absent for 200 frames with others. Until one is tracked, rigid bodies are
//! delivered as trackers.

mod encode;
mod reader;

pub use encode::{encode_frame, encode_skeleton};

use crate::WireError;
use crate::bytes::{array, slice};
use crate::pose::{
    Joint, MAX_JOINTS, PoseUpdate, SkeletonUpdate, Tracker, TrackerUpdate, is_forest, is_position,
    is_rotation,
};
use crate::source::{Active, Source, Update};
use crate::world::Transform;
use reader::{
    Bone, BoneDefinition, Definitions, Frame, Layout, SkeletonDefinition, read_definitions, read_frame,
};

/// Message kind: the server describes itself.
const SERVER: u16 = 1;
/// Message kind: model definitions.
const MODELDEF: u16 = 5;
/// Message kind: frame of mocap data.
const FRAME: u16 = 7;
/// Bytes of a message's header.
const HEADER: usize = 4;
/// Mean distance of the bones from their offsets, in metres, below which positions are parent-local.
const LOCAL_TOLERANCE_M: f32 = 0.02;
const EXPECTED: &str = "NatNet message";

/// Whether this looks like a message of a NatNet server: a known kind, and the declared length.
pub fn recognises(datagram: &[u8]) -> bool {
    let word = |at| array::<2>(datagram, at).map(u16::from_le_bytes);
    matches!(word(0), Some(SERVER | MODELDEF | FRAME))
        && word(2).is_some_and(|bytes| usize::from(bytes) + HEADER == datagram.len() && bytes >= 16)
}

/// Decoder of NatNet messages; see the module documentation.
#[derive(Clone, Debug, Default)]
pub struct NatnetDecoder {
    definitions: Vec<SkeletonDefinition>,
    /// Ids of the rigid bodies, in the order of `trackers`.
    rigid_body_ids: Vec<i32>,
    trackers: TrackerUpdate,
    /// Id of the skeleton that is decoded.
    active: Active<i32>,
    skeleton: SkeletonUpdate,
    pose: PoseUpdate,
}

impl NatnetDecoder {
    fn on_frame(&mut self, frame: &Frame, on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let is_tracked = |(_, bones): &&(i32, Vec<Bone>)| bones.iter().any(|bone| bone.is_tracked);
        let is_active = |(id, _): &&(i32, Vec<Bone>)| Some(*id) == self.active.id;
        let is_defined = |(id, _): &&(i32, Vec<Bone>)| self.definitions.iter().any(|d| d.id == *id);
        let mut candidates = frame.skeletons.iter().filter(is_tracked);
        let Some((id, bones)) = candidates
            .clone()
            .find(is_active)
            .or_else(|| candidates.find(is_defined))
        else {
            // No skeleton is tracked, or its definition has not come. One that was active may return.
            if self.active.id.is_none() {
                self.on_rigid_bodies(frame, on_update);
            }
            return Ok(());
        };
        let (Some(is_new), Some(definition)) = (
            self.active.accept(*id),
            self.definitions.iter().find(|d| d.id == *id),
        ) else {
            return Ok(());
        };
        if is_new {
            self.skeleton = definition.skeleton.clone();
            on_update(Update::Skeleton(&self.skeleton));
        }
        let mut transforms: Vec<Option<Transform>> = vec![None; definition.bone_ids.len()];
        self.pose.clear();
        for bone in bones.iter().filter(|bone| bone.is_tracked) {
            let Some(index) = definition.bone_ids.iter().position(|id| *id == bone.id & 0xffff) else {
                continue;
            };
            if is_rotation(&bone.rotation) && is_position(&bone.position) {
                let (rotation, position) = (bone.rotation, bone.position);
                transforms[index] = Some(Transform { rotation, position });
            } else {
                self.pose.unusable += 1;
            }
        }
        let is_local = definition.is_local(&transforms);
        for (id, parent) in self.skeleton.parents.iter().enumerate() {
            let Some(bone) = transforms[id] else { continue };
            let (rotation, position) = match usize::try_from(*parent) {
                Err(_) => {
                    self.pose.root = Some(bone.position);
                    (bone.rotation, bone.position)
                }
                Ok(_) if is_local => (bone.rotation, bone.position),
                Ok(parent) => match &transforms[parent] {
                    Some(above) => bone.relative_to(above),
                    None => continue,
                },
            };
            self.pose.joints.push(Joint::new(id as u16, rotation, position));
        }
        self.pose.seq = Some(frame.number);
        self.pose.time = frame.seconds;
        if !self.pose.joints.is_empty() {
            on_update(Update::Frame(&self.pose));
        }
        Ok(())
    }

    /// Delivers the rigid bodies with known names as trackers.
    fn on_rigid_bodies(&mut self, frame: &Frame, on_update: &mut dyn FnMut(Update<'_>)) {
        for (id, tracker) in self.rigid_body_ids.iter().zip(&mut self.trackers.trackers) {
            let body = frame
                .rigid_bodies
                .iter()
                .find(|body| body.id == *id && body.is_tracked);
            tracker.rotation = body.map(|body| body.rotation).filter(is_rotation);
            tracker.position = body.map(|body| body.position).filter(is_position);
        }
        self.trackers.seq = Some(frame.number);
        self.trackers.time = frame.seconds;
        if self.trackers.trackers.iter().any(|t| t.rotation.is_some()) {
            on_update(Update::Trackers(&self.trackers));
        }
    }

    fn on_definitions(&mut self, definitions: Definitions, on_update: &mut dyn FnMut(Update<'_>)) {
        self.definitions = definitions.skeletons;
        self.rigid_body_ids = definitions.rigid_bodies.iter().map(|(id, _)| *id).collect();
        let tracker = |(_, name): (i32, String)| Tracker {
            name,
            ..Tracker::default()
        };
        self.trackers.trackers = definitions.rigid_bodies.into_iter().map(tracker).collect();
        let active = self.definitions.iter().find(|d| Some(d.id) == self.active.id);
        match active {
            Some(definition) if definition.skeleton != self.skeleton => {
                self.skeleton = definition.skeleton.clone();
                on_update(Update::Skeleton(&self.skeleton));
            }
            Some(_) => {}
            None => self.active = Active::default(),
        }
    }
}

impl SkeletonDefinition {
    /// Whether the transforms are parent-local: then the positions are close to the offsets.
    fn is_local(&self, transforms: &[Option<Transform>]) -> bool {
        let distance = |(bone, id): (&Transform, usize)| {
            let offset = self.skeleton.offsets[id];
            (0..3).map(|i| (bone.position[i] - offset[i]).abs()).sum::<f32>()
        };
        let children = transforms
            .iter()
            .enumerate()
            .filter(|(id, _)| self.skeleton.parents[*id] >= 0);
        let (mut sum, mut count) = (0.0, 0.0_f32);
        for child in children.filter_map(|(id, bone)| Some((bone.as_ref()?, id))) {
            sum += distance(child);
            count += 1.0;
        }
        count > 0.0 && sum / count < LOCAL_TOLERANCE_M
    }
}

impl Source for NatnetDecoder {
    fn decode(&mut self, datagram: &[u8], on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let (Some(kind), Some(bytes)) = (array::<2>(datagram, 0), array::<2>(datagram, 2)) else {
            return Err(WireError::alien(EXPECTED));
        };
        let (kind, needed) = (u16::from_le_bytes(kind), usize::from(u16::from_le_bytes(bytes)));
        if !matches!(kind, SERVER | MODELDEF | FRAME) {
            return Err(WireError::alien(EXPECTED));
        }
        let body = slice(datagram, HEADER, needed, "the message")?;
        let malformed = |reason| WireError::malformed(HEADER, reason);
        match kind {
            FRAME => {
                let frame = read_frame(body, true).or_else(|| read_frame(body, false));
                let frame = frame.ok_or(malformed(
                    "a frame of mocap data that is none of NatNet 3.0 to 4.2",
                ))?;
                self.on_frame(&frame, on_update)
            }
            MODELDEF => {
                // In a wrong layout reading ends early, at what looks like a camera: the layout that gives most is
                // right.
                let definitions = Layout::ALL
                    .into_iter()
                    .rev()
                    .filter_map(|layout| read_definitions(body, layout))
                    .max_by_key(|definitions| definitions.skeletons.len() + definitions.rigid_bodies.len());
                self.on_definitions(
                    definitions.ok_or(malformed("model definitions of no NatNet 3.0 to 4.2"))?,
                    on_update,
                );
                Ok(())
            }
            // SERVER: nothing to decode.
            _ => Ok(()),
        }
    }
}

/// The skeleton of these bones, if their parents form a tree and their offsets are valid.
fn skeleton_update(bones: &[BoneDefinition]) -> Option<SkeletonUpdate> {
    if bones.is_empty() || bones.len() > MAX_JOINTS {
        return None;
    }
    let parents: Vec<i32> = bones
        .iter()
        .map(|bone| {
            bones
                .iter()
                .position(|other| other.id == bone.parent)
                .map_or(-1, |index| index as i32)
        })
        .collect();
    let is_valid = is_forest(&parents) && bones.iter().all(|bone| is_position(&bone.offset));
    is_valid.then(|| SkeletonUpdate {
        names: bones.iter().map(|bone| bone.name.clone()).collect(),
        offsets: bones.iter().map(|bone| bone.offset).collect(),
        rest: vec![[1.0, 0.0, 0.0, 0.0]; bones.len()],
        rate: None,
        parents,
    })
}
