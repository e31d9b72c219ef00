//! The performer's body as the source sends it: skeleton, current pose and retargeting to the canonical body.

use anticip_geometry::Quat;
use anticip_wire::{PoseUpdate, SkeletonUpdate, mocopi};

use crate::MotionError;
use crate::agreement::Agreement;
use crate::canonical::JOINT_COUNT;
use crate::live::Source;
use crate::pose::Pose;
use crate::retarget::Retargeter;
use crate::skeleton::Skeleton;
use crate::standard;

/// Frames compared to decide whether a skeleton is understood.
const COMPARED_FRAMES: usize = 50;

/// Coordinates larger than this (metres) are a fault of the source and are ignored.
const MAX_COORDINATE: f32 = 1e5;

/// The source's skeleton and current pose. Joints that a frame leaves out keep their last rotation.
pub(super) struct Body {
    skeleton: Skeleton,
    retargeter: Retargeter,
    /// True once the source has declared its skeleton, or if the protocol fixes its joints.
    layout_known: bool,
    /// True once the source has declared its skeleton, or if it never does (VMC); a standard body is used until then.
    pub(super) is_declared: bool,
    local: Vec<Quat>,
    root: [f64; 3],
    /// Frames since each joint was last measured.
    age: Vec<u32>,
    /// Whether each joint was ever measured.
    seen: Vec<bool>,
    /// A joint not measured for this many frames is missing. VMC poses may come in several bundles, so there one
    /// frame without a bone does not count.
    stale_after: u32,
    /// Whether joints that were never sent are absent (VMC names bones that models lack, a phone is one joint).
    partial: bool,
    pub(super) mask: [bool; JOINT_COUNT],
    scratch: [Quat; JOINT_COUNT],
    /// Compares the first frames of a declared skeleton with their retargeted pose.
    agreement: Option<Agreement>,
    disagreement: Option<String>,
}

impl Body {
    /// The body assumed for a source until it declares its own.
    pub(super) fn standard(source: Source) -> Result<Self, MotionError> {
        let skeleton = match source {
            Source::Mocopi => standard::mocopi(),
            Source::Vmc => standard::vmc(),
            Source::Msgpack | Source::Other(_) => standard::canonical(),
        };
        let mut body = Self::new(skeleton)?;
        // The other protocols declare their joints.
        body.layout_known = matches!(source, Source::Mocopi | Source::Vmc);
        body.is_declared = source == Source::Vmc;
        if source == Source::Vmc {
            body.stale_after = 2;
        }
        if source != Source::Mocopi {
            body.partial = true;
            body.mask = [false; JOINT_COUNT];
        }
        Ok(body)
    }

    fn new(skeleton: Skeleton) -> Result<Self, MotionError> {
        let retargeter = Retargeter::compile(&skeleton)?;
        let n = skeleton.len();
        Ok(Self {
            local: (0..n).map(|j| skeleton.rest(j)).collect(),
            root: [0.0; 3],
            age: vec![u32::MAX; n],
            seen: vec![false; n],
            stale_after: 1,
            partial: false,
            layout_known: true,
            is_declared: true,
            mask: *retargeter.mask(),
            scratch: [Quat::IDENTITY; JOINT_COUNT],
            agreement: None,
            disagreement: None,
            skeleton,
            retargeter,
        })
    }

    /// Takes a declared skeleton. Returns `Ok(true)` if poses now map differently.
    pub(super) fn set_skeleton(&mut self, update: &SkeletonUpdate) -> Result<bool, MotionError> {
        if !self.partial && is_mocopi_without_sides(update) {
            // Such offsets are placeholders, and the protocol fixes the bones and the rest pose.
            let standard = standard::mocopi();
            let changed = self.skeleton != standard;
            if changed {
                *self = Self::new(standard)?;
            }
            self.is_declared = true;
            return Ok(changed);
        }
        let same = self.layout_known
            && self.skeleton.names == update.names
            && self.skeleton.parents == update.parents
            && self.skeleton.len() == update.rest.len()
            && (0..update.rest.len()).all(|j| {
                let rest = Quat::from_array(update.rest[j].map(f64::from)).normalize_or(Quat::IDENTITY);
                let offset = update.offsets[j].map(f64::from);
                self.skeleton.rest(j).angle_to(rest) < 1e-6 && self.skeleton.offsets[j] == offset
            });
        if same {
            self.is_declared = true;
            return Ok(false);
        }
        let skeleton = Skeleton {
            names: update.names.clone(),
            parents: update.parents.clone(),
            offsets: update.offsets.iter().map(|o| o.map(f64::from)).collect(),
            rest_local: Some(update.rest.iter().map(|q| q.map(f64::from)).collect()),
        };
        let mut body = Self::new(skeleton)?;
        body.agreement = Some(Agreement::default());
        body.partial = self.partial;
        if self.partial {
            body.mask = [false; JOINT_COUNT];
        }
        if body.retargeter.same_map(&self.retargeter) {
            body.local.copy_from_slice(&self.local);
            body.age.copy_from_slice(&self.age);
            body.seen.copy_from_slice(&self.seen);
            body.root = self.root;
            body.mask = self.mask;
            *self = body;
            return Ok(false);
        }
        *self = body;
        Ok(true)
    }

    /// Why the declared skeleton does not match the motion, once enough frames were compared.
    pub(super) fn disagreement(&mut self) -> Option<&str> {
        if let Some(agreement) = self.agreement.take_if(|a| a.frames() >= COMPARED_FRAMES) {
            self.disagreement = agreement.disagreement().map(|d| d.to_string());
        }
        self.disagreement.as_deref()
    }

    /// Names of the joints, once they are known.
    pub(super) fn names(&self) -> Option<&[String]> {
        self.layout_known.then_some(&self.skeleton.names)
    }

    /// Takes the joints of a frame. `amends`: it adds to the frame before (same time) instead of following it.
    /// Returns true if the mask changed.
    pub(super) fn take(&mut self, pose: &PoseUpdate, amends: bool) -> bool {
        if !amends {
            for age in &mut self.age {
                *age = age.saturating_add(1);
            }
        }
        let mut changed = false;
        for joint in pose.joints.iter().filter(|j| j.fresh) {
            let id = usize::from(joint.id);
            let rotation = Quat::from_array(joint.rotation.map(f64::from)).try_normalize();
            if let (Some(slot), Some(q)) = (self.local.get_mut(id), rotation) {
                *slot = q;
                self.age[id] = 0;
                changed |= !std::mem::replace(&mut self.seen[id], true);
            }
        }
        if let Some(root) = pose.root
            && root.iter().all(|v| v.abs() < MAX_COORDINATE)
        {
            self.root = root.map(f64::from);
        }
        if !(self.partial && changed) {
            return false;
        }
        let sources = self.retargeter.sources();
        let mask = std::array::from_fn(|j| sources[j].iter().any(|&s| self.seen[s]));
        std::mem::replace(&mut self.mask, mask) != mask
    }

    /// Whether a frame has a rotation for at least one joint and for none outside this skeleton. Before a skeleton is
    /// declared it must have all canonical joints, unusable ones included.
    pub(super) fn fits(&self, pose: &PoseUpdate) -> bool {
        (self.layout_known || pose.joints.len() + pose.unusable as usize == self.local.len())
            && !pose.joints.is_empty()
            && pose.joints.iter().all(|j| usize::from(j.id) < self.local.len())
    }

    /// Writes the current canonical pose; returns the canonical joints (bit j) that are stale.
    pub(super) fn canonical(&mut self, out: &mut Pose) -> u32 {
        out.root = self.retargeter.apply(&self.local, self.root, &mut self.scratch);
        if let Some(agreement) = &mut self.agreement {
            agreement.push(&mut self.retargeter, &self.scratch);
        }
        out.rotations.copy_from_slice(&self.scratch);
        for (q, present) in out.rotations.iter_mut().zip(self.mask) {
            if !present {
                *q = Quat::IDENTITY;
            }
        }
        let sources = self.retargeter.sources();
        let is_stale = |j: &usize| sources[*j].iter().any(|&s| self.age[s] >= self.stale_after);
        (0..JOINT_COUNT)
            .filter(|&j| self.mask[j])
            .filter(is_stale)
            .fold(0, |bits, j| bits | 1 << j)
    }
}

/// Whether these are mocopi's bones with both legs starting at one place, as of no body.
fn is_mocopi_without_sides(update: &SkeletonUpdate) -> bool {
    let hip = |name| {
        update
            .names
            .iter()
            .position(|n| n == name)
            .and_then(|j| update.offsets.get(j))
    };
    update.names.iter().eq(&mocopi::BONE_NAMES)
        && update.parents == mocopi::BONE_PARENTS
        && hip("l_up_leg") == hip("r_up_leg")
}
