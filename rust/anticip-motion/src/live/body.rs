//! The performer's body as the source gives it: skeleton, held pose, and its map onto the canonical body.

use anticip_geometry::Quat;
use anticip_wire::{PoseUpdate, SkeletonUpdate};

use crate::MotionError;
use crate::agreement::Agreement;
use crate::canonical::JOINT_COUNT;
use crate::live::Source;
use crate::pose::Pose;
use crate::retarget::Retargeter;
use crate::skeleton::Skeleton;
use crate::standard;

/// So many frames tell whether a body is understood.
const COMPARED: usize = 50;

/// Positions farther than this (metres) are a fault of the source.
const FAR: f32 = 1e5;

/// The source's pose so far: joints that a frame leaves out keep their last rotation.
pub(super) struct Body {
    skeleton: Skeleton,
    retargeter: Retargeter,
    /// True once the source has told its skeleton, or when the protocol fixes it.
    announced: bool,
    /// False while another body may still be told, and until then one stands in.
    told: bool,
    local: Vec<Quat>,
    root: [f64; 3],
    /// Frames since each joint was measured.
    age: Vec<u32>,
    /// Per joint, whether it was ever measured.
    seen: Vec<bool>,
    /// A joint unmeasured for this many frames counts as missing. VMC poses may come in several bundles, so one
    /// frame without a bone is nothing there.
    patience: u32,
    /// Joints that were never sent are absent (VMC names bones that models lack, a phone is one joint).
    partial: bool,
    mask: [bool; JOINT_COUNT],
    scratch: [Quat; JOINT_COUNT],
    /// Compares the first frames of a skeleton that the source has told with what becomes of them.
    agreement: Option<Agreement>,
    disagreement: Option<String>,
}

impl Body {
    /// The body a source is taken to have before it says anything else.
    pub(super) fn standard(source: Source) -> Result<Self, MotionError> {
        let skeleton = match source {
            Source::Mocopi => standard::mocopi(),
            Source::Vmc => standard::vmc(),
            Source::Msgpack | Source::Told(_) => standard::canonical(),
        };
        let mut body = Self::new(skeleton)?;
        // The others say which body it is.
        body.announced = matches!(source, Source::Mocopi | Source::Vmc);
        body.told = source == Source::Vmc;
        if source == Source::Vmc {
            body.patience = 2;
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
            patience: 1,
            partial: false,
            announced: true,
            told: true,
            mask: *retargeter.mask(),
            scratch: [Quat::IDENTITY; JOINT_COUNT],
            agreement: None,
            disagreement: None,
            skeleton,
            retargeter,
        })
    }

    /// Takes a told skeleton; `Ok(true)` where poses now map differently.
    pub(super) fn set_skeleton(&mut self, update: &SkeletonUpdate) -> Result<bool, MotionError> {
        let same = self.announced
            && self.skeleton.names == update.names
            && self.skeleton.parents == update.parents
            && self.skeleton.len() == update.rest.len()
            && (0..update.rest.len()).all(|j| {
                let rest = Quat::from_array(update.rest[j].map(f64::from)).normalize_or(Quat::IDENTITY);
                let offset = update.offsets[j].map(f64::from);
                self.skeleton.rest(j).angle_to(rest) < 1e-6 && self.skeleton.offsets[j] == offset
            });
        if same {
            self.told = true;
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

    /// Why the body that was told is not the one that moves, once that is known.
    pub(super) fn disagreement(&mut self) -> Option<&str> {
        if let Some(agreement) = self.agreement.take_if(|a| a.frames() >= COMPARED) {
            self.disagreement = agreement.disagreement().map(|d| d.to_string());
        }
        self.disagreement.as_deref()
    }

    pub(super) fn joints(&self) -> usize {
        self.local.len()
    }

    pub(super) fn announced(&self) -> bool {
        self.announced
    }

    pub(super) fn told(&self) -> bool {
        self.told
    }

    pub(super) fn names(&self) -> &[String] {
        &self.skeleton.names
    }

    pub(super) fn mask(&self) -> &[bool; JOINT_COUNT] {
        &self.mask
    }

    /// Takes the joints of a frame; `more` when it completes the frame before (same time) instead of following it.
    /// True where the mask changed.
    pub(super) fn take(&mut self, pose: &PoseUpdate, more: bool) -> bool {
        if !more {
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
            && root.iter().all(|v| v.abs() < FAR)
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

    /// Whether a frame has a rotation for at least one joint of this skeleton, and none beyond it. Before a skeleton is
    /// told, only a whole canonical body does, its unusable joints included.
    pub(super) fn fits(&self, pose: &PoseUpdate) -> bool {
        (self.announced || pose.joints.len() + pose.unusable as usize == self.joints())
            && !pose.joints.is_empty()
            && pose.joints.iter().all(|j| usize::from(j.id) < self.joints())
    }

    /// The canonical pose as it stands, and which canonical joints (bit j) were not measured lately.
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
        let stale = |j: &usize| sources[*j].iter().any(|&s| self.age[s] >= self.patience);
        (0..JOINT_COUNT)
            .filter(|&j| self.mask[j])
            .filter(stale)
            .fold(0, |bits, j| bits | 1 << j)
    }
}
