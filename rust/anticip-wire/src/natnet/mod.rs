//! OptiTrack Motive: NatNet 3.0 to 4.2, skeletons of the multicast data stream, UDP port 1511.
//!
//! Little-endian. Every message: u16 kind, u16 bytes that follow. A frame of mocap data (kind 7) has i32 number, then
//! sections, each an i32 count (since 4.1 the section's bytes as an i32 as well): marker sets, other markers, rigid bodies,
//! skeletons, assets (since 4.1), labelled markers, force plates, devices; then time code, f64 seconds, camera stamps, flags.
//! A rigid body and a bone are the same 38 bytes: i32 id, `x y z` metres, `x y z w`, f32 error, i16 flags (1: tracked); the
//! high half of a bone's id is its skeleton's. Nothing says whether sections carry sizes: a frame that fits with them has them.
//!
//! Names, parents and offsets come as model definitions (kind 5), which a client asks for (kind 4, to port 1510). Bones
//! are told in the world or in their parents, as Motive's *Skeleton Coordinates* says; which, the definitions' offsets
//! tell. Right-handed, y up, and in T-pose every bone's rotation is the identity. Of several skeletons the first is heard, another
//! one when that has been away for 200 frames with others. Where none has been tracked, rigid bodies are trackers.

mod encode;
mod reader;

pub use encode::{encode_frame, encode_skeleton};

use crate::WireError;
use crate::bytes::array;
use crate::figure::Placed;
use crate::pose::{
    Joint, MAX_JOINTS, PoseUpdate, SkeletonUpdate, Tracker, TrackerUpdate, is_forest, is_position,
    is_rotation,
};
use crate::source::{Active, Source, Update};
use reader::{Bone, Definition, Definitions, Frame, Layout, definition, frame};

const SERVER: u16 = 1;
const MODELDEF: u16 = 5;
const FRAME: u16 = 7;
const HEADER: usize = 4;
/// Bones as near (metres, mean) to their offsets as this are told in their parents.
const NEAR: f32 = 0.02;
const EXPECTED: &str = "NatNet message";

/// Whether this looks like a message of a NatNet server: a kind that it sends, and as many bytes as it says.
pub fn recognises(datagram: &[u8]) -> bool {
    let word = |at| array::<2>(datagram, at).map(u16::from_le_bytes);
    matches!(word(0), Some(SERVER | MODELDEF | FRAME))
        && word(2).is_some_and(|bytes| usize::from(bytes) + HEADER == datagram.len() && bytes >= 16)
}

/// Makes frames of datagrams; see the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct NatnetDecoder {
    definitions: Vec<Definition>,
    /// The rigid bodies' ids, in the order of `trackers`.
    rigid: Vec<i32>,
    trackers: TrackerUpdate,
    /// The skeleton that is heard.
    active: Active<i32>,
    skeleton: SkeletonUpdate,
    pose: PoseUpdate,
}

impl NatnetDecoder {
    fn frame(&mut self, found: &Frame, take: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let tracked = |(_, bones): &&(i32, Vec<Bone>)| bones.iter().any(|bone| bone.tracked);
        let active = |(id, _): &&(i32, Vec<Bone>)| Some(*id) == self.active.id;
        let known = |(id, _): &&(i32, Vec<Bone>)| self.definitions.iter().any(|d| d.id == *id);
        let mut there = found.skeletons.iter().filter(tracked);
        let Some((id, bones)) = there.clone().find(active).or_else(|| there.find(known)) else {
            // Nobody is tracked, or nobody has said yet who that is. A skeleton that was heard may come back.
            if self.active.id.is_none() {
                self.rigid(found, take);
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
            self.skeleton = definition.body.clone();
            take(Update::Skeleton(&self.skeleton));
        }
        let mut placed: Vec<Option<Placed>> = vec![None; definition.bones.len()];
        self.pose.clear();
        for bone in bones.iter().filter(|bone| bone.tracked) {
            let Some(place) = definition.bones.iter().position(|id| *id == bone.id & 0xffff) else {
                continue;
            };
            if is_rotation(&bone.rotation) && is_position(&bone.position) {
                let (rotation, position) = (bone.rotation, bone.position);
                placed[place] = Some(Placed { rotation, position });
            } else {
                self.pose.unusable += 1;
            }
        }
        let local = definition.is_local(&placed);
        for (id, parent) in self.skeleton.parents.iter().enumerate() {
            let Some(here) = placed[id] else { continue };
            let (rotation, position) = match usize::try_from(*parent) {
                Err(_) => {
                    self.pose.root = Some(here.position);
                    (here.rotation, here.position)
                }
                Ok(_) if local => (here.rotation, here.position),
                Ok(parent) => match &placed[parent] {
                    Some(above) => here.within(above),
                    None => continue,
                },
            };
            self.pose.joints.push(Joint {
                id: id as u16,
                rotation,
                position,
                fresh: true,
            });
        }
        self.pose.seq = Some(found.number);
        self.pose.time = found.seconds;
        if !self.pose.joints.is_empty() {
            take(Update::Frame(&self.pose));
        }
        Ok(())
    }

    /// Rigid bodies that have names, as trackers.
    fn rigid(&mut self, found: &Frame, take: &mut dyn FnMut(Update<'_>)) {
        for (id, tracker) in self.rigid.iter().zip(&mut self.trackers.trackers) {
            let here = found.rigid.iter().find(|body| body.id == *id && body.tracked);
            tracker.rotation = here.map(|body| body.rotation).filter(is_rotation);
            tracker.position = here.map(|body| body.position).filter(is_position);
        }
        self.trackers.seq = Some(found.number);
        self.trackers.time = found.seconds;
        if self.trackers.trackers.iter().any(|t| t.rotation.is_some()) {
            take(Update::Trackers(&self.trackers));
        }
    }

    fn define(&mut self, found: Definitions, take: &mut dyn FnMut(Update<'_>)) {
        self.definitions = found.skeletons;
        self.rigid = found.rigid.iter().map(|(id, _)| *id).collect();
        let named = |(_, name): (i32, String)| Tracker {
            name,
            ..Tracker::default()
        };
        self.trackers.trackers = found.rigid.into_iter().map(named).collect();
        let active = self.definitions.iter().find(|d| Some(d.id) == self.active.id);
        match active {
            Some(definition) if definition.body != self.skeleton => {
                self.skeleton = definition.body.clone();
                take(Update::Skeleton(&self.skeleton));
            }
            Some(_) => {}
            None => self.active = Active::default(),
        }
    }
}

impl Definition {
    /// Whether bones are told in their parents: they then are where the offsets say.
    fn is_local(&self, placed: &[Option<Placed>]) -> bool {
        let apart = |(place, id): (&Placed, usize)| {
            let offset = self.body.offsets[id];
            (0..3).map(|i| (place.position[i] - offset[i]).abs()).sum::<f32>()
        };
        let children = placed
            .iter()
            .enumerate()
            .filter(|(id, _)| self.body.parents[*id] >= 0);
        let (mut sum, mut count) = (0.0, 0.0_f32);
        for found in children.filter_map(|(id, place)| Some((place.as_ref()?, id))) {
            sum += apart(found);
            count += 1.0;
        }
        count > 0.0 && sum / count < NEAR
    }
}

impl Source for NatnetDecoder {
    fn decode(&mut self, datagram: &[u8], take: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        let (Some(kind), Some(bytes)) = (array::<2>(datagram, 0), array::<2>(datagram, 2)) else {
            return Err(WireError::Alien { expected: EXPECTED });
        };
        let (kind, needed) = (u16::from_le_bytes(kind), usize::from(u16::from_le_bytes(bytes)));
        if !matches!(kind, SERVER | MODELDEF | FRAME) {
            return Err(WireError::Alien { expected: EXPECTED });
        }
        let body = &datagram[HEADER..];
        let Some(body) = body.get(..needed) else {
            return Err(WireError::Truncated {
                what: "the message",
                at: HEADER,
                needed,
                left: body.len(),
            });
        };
        let bad = |reason| WireError::Malformed { reason, at: HEADER };
        match kind {
            FRAME => {
                let found = frame(body, true).or_else(|| frame(body, false));
                let found = found.ok_or(bad("a frame of mocap data that is none of NatNet 3.0 to 4.2"))?;
                self.frame(&found, take)
            }
            MODELDEF => {
                // Read by a wrong layout they end early, at what looks like a camera.
                let found = Layout::ALL
                    .into_iter()
                    .rev()
                    .filter_map(|layout| definition(body, layout))
                    .max_by_key(|found| found.skeletons.len() + found.rigid.len());
                self.define(
                    found.ok_or(bad("model definitions of no NatNet 3.0 to 4.2"))?,
                    take,
                );
                Ok(())
            }
            // Who the server is.
            _ => Ok(()),
        }
    }
}

/// A body that a definition tells, if it is one.
fn body(bones: &[(i32, i32, String, [f32; 3])]) -> Option<SkeletonUpdate> {
    if bones.is_empty() || bones.len() > MAX_JOINTS {
        return None;
    }
    let parents: Vec<i32> = bones
        .iter()
        .map(|(_, parent, ..)| {
            bones
                .iter()
                .position(|(id, ..)| id == parent)
                .map_or(-1, |p| p as i32)
        })
        .collect();
    let fits = is_forest(&parents) && bones.iter().all(|(.., offset)| is_position(offset));
    fits.then(|| SkeletonUpdate {
        names: bones.iter().map(|(_, _, name, _)| name.clone()).collect(),
        offsets: bones.iter().map(|(.., offset)| *offset).collect(),
        rest: vec![[1.0, 0.0, 0.0, 0.0]; bones.len()],
        rate: None,
        parents,
    })
}
