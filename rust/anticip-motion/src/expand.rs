//! The inverse of retargeting: canonical poses to a source skeleton's local rotations.

use anticip_geometry::Quat;

use crate::MotionError;
use crate::canonical::{HIPS, JOINT_COUNT, PARENTS};
use crate::retarget::Retargeter;
use crate::skeleton::Skeleton;
use crate::vector::minus;

/// Distributes canonical poses over the joints of one skeleton; the inverse of [`Retargeter`].
///
/// The rotation of a collapsed chain (mocopi's seven torsos) is spread evenly over its joints; joints without a
/// canonical counterpart (fingers, eyes) keep their rest rotation. Retargeting the result returns the original pose.
#[derive(Debug, Clone)]
pub struct Distributor {
    retargeter: Retargeter,
    skeleton: Skeleton,
}

impl Distributor {
    /// Compiles the mapping to a skeleton.
    ///
    /// # Errors
    /// As [`Retargeter::compile`].
    pub fn compile(skeleton: &Skeleton) -> Result<Self, MotionError> {
        Ok(Self {
            retargeter: Retargeter::compile(skeleton)?,
            skeleton: skeleton.clone(),
        })
    }

    /// Number of joints of the target skeleton.
    #[must_use]
    pub fn joints(&self) -> usize {
        self.skeleton.len()
    }

    /// Converts one canonical pose (local rotations and the hips' position) to the target's local rotations, written
    /// to `out`; returns the target's root translation.
    ///
    /// # Panics
    /// Never for an `out` of [`Distributor::joints`] entries; a shorter one panics on indexing.
    pub fn apply(&self, canonical: &[Quat; JOINT_COUNT], hips: [f64; 3], out: &mut [Quat]) -> [f64; 3] {
        for (j, q) in out.iter_mut().enumerate().take(self.joints()) {
            *q = self.skeleton.rest(j);
        }
        let back = self.retargeter.world().conj();
        let mut global = [Quat::IDENTITY; JOINT_COUNT];
        // Global rotation of each canonical joint's source joint; its parent's if it has none.
        let mut source = [Quat::IDENTITY; JOINT_COUNT];
        let mut position = back.rotate(hips);
        for j in 0..JOINT_COUNT {
            let (parent_global, parent_source) = if j == HIPS {
                (Quat::IDENTITY, Quat::IDENTITY)
            } else {
                let p = PARENTS[j] as usize;
                (global[p], source[p])
            };
            global[j] = parent_global * canonical[j];
            source[j] = self.retargeter.link(j).map_or(parent_source, |link| {
                let target = (back * global[j] * link.t_pose_inverse.conj()).normalize_or(Quat::IDENTITY);
                self.spread(&self.retargeter.sources()[j], parent_source.conj() * target, out);
                target
            });
            if j == HIPS {
                position = self.root_of(position, out);
            }
        }
        position
    }

    /// Sets a chain's local rotations so that their product is `total`; what differs from the rest is spread evenly.
    fn spread(&self, chain: &[usize], total: Quat, out: &mut [Quat]) {
        let mut rest = Quat::IDENTITY;
        for &joint in chain {
            rest = rest * self.skeleton.rest(joint);
        }
        let turn = (total * rest.conj()).normalize_or(Quat::IDENTITY);
        let (mut before, mut upto) = (Quat::IDENTITY, Quat::IDENTITY);
        for (i, &joint) in chain.iter().enumerate() {
            upto = upto * self.skeleton.rest(joint);
            let share = (i + 1) as f64 / chain.len() as f64;
            let here = Quat::slerp(Quat::IDENTITY, turn, share) * upto;
            out[joint] = (before.conj() * here).normalize_or(Quat::IDENTITY);
            before = here;
        }
    }

    /// Translation of the root joint that puts the hips at `hips`.
    fn root_of(&self, hips: [f64; 3], local: &[Quat]) -> [f64; 3] {
        let chain = &self.retargeter.sources()[HIPS];
        let mut rotation = Quat::IDENTITY;
        let mut position = hips;
        for pair in chain.windows(2) {
            rotation = rotation * local[pair[0]];
            position = minus(position, rotation.rotate(self.skeleton.offsets[pair[1]]));
        }
        position
    }
}
