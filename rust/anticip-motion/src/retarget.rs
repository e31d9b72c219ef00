//! Retargeting: any mapped skeleton's pose to the canonical body.

use anticip_geometry::Quat;

use crate::MotionError;
use crate::canonical::{HIPS, JOINT_COUNT, PARENTS};
use crate::mapping::{Mapping, map, parent};
use crate::rest::{correction, deviation};
use crate::skeleton::Skeleton;
use crate::vector::add;

/// A T-pose by definition has limbs this close (radians) to where the canonical body has them.
pub const T_POSE_TOLERANCE: f64 = 25.0 * std::f64::consts::PI / 180.0;

/// One step of the walk down the source hierarchy.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Index of the joint in the source's arrays.
    joint: usize,
    /// Slot of its parent in the walk, `None` at a root.
    parent: Option<usize>,
    /// Offset from the parent.
    offset: [f64; 3],
}

/// Where one canonical joint's rotation comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// Slot of the source joint in the walk.
    slot: usize,
    /// Right factor: inverse of the source joint's global rotation in the T-pose.
    pub(crate) fix: Quat,
}

/// Where the source of each canonical joint is, `None` where there is none.
pub type Places = [Option<[f64; 3]>; JOINT_COUNT];

/// Maps poses of one skeleton to the canonical body; compiled once, run per frame without allocating.
///
/// It acts on global rotations: `G_canonical = W * G_source * inverse(W * G_source in a T-pose)`, with `W` turning
/// the source's world to y up, facing +z in the T-pose; canonical local rotations follow from the parents'. Chains of
/// source joints between two canonical ones are thereby composed. Joints the source lacks are the identity and 0 in the
/// mask.
///
/// The T-pose is the skeleton's rest pose with its limbs straightened (see the crate's documentation of the body).
#[derive(Debug, Clone)]
pub struct Retargeter {
    joints: usize,
    walk: Vec<Step>,
    links: [Option<Link>; JOINT_COUNT],
    /// Slots of the joints whose places are the canonical joints'.
    anchors: [Option<usize>; JOINT_COUNT],
    world: Quat,
    /// Slots from the root down to the joint that gives the hips' position.
    to_hips: Vec<usize>,
    mask: [bool; JOINT_COUNT],
    sources: Vec<Vec<usize>>,
    ends: [Option<[usize; 2]>; JOINT_COUNT],
    globals: Vec<Quat>,
    /// Scratch of [`Retargeter::places`].
    at: Vec<[f64; 3]>,
    names: Vec<String>,
}

impl Retargeter {
    /// Compiles the map of a skeleton onto the canonical body.
    ///
    /// # Errors
    /// [`MotionError::Skeleton`] or [`MotionError::Shape`] where the hierarchy is none, [`MotionError::Unmapped`] where a
    /// joint no body can do without has no source, [`MotionError::Hierarchy`] where names and hierarchy contradict.
    pub fn compile(skeleton: &Skeleton) -> Result<Self, MotionError> {
        let order = skeleton.order()?;
        let mapping = map(skeleton, &order)?;
        let (rotations, positions) = skeleton.rest_globals(&order);
        let fixed = correction(skeleton, &mapping, &positions);

        let mut needed = vec![false; skeleton.len()];
        for source in mapping.iter().flatten() {
            for j in skeleton.path(source.rotation) {
                needed[j] = true;
            }
        }
        let mut slots = vec![usize::MAX; skeleton.len()];
        let mut walk = Vec::new();
        for &j in order.iter().filter(|&&j| needed[j]) {
            slots[j] = walk.len();
            let parent = usize::try_from(skeleton.parents[j]).ok();
            walk.push(Step {
                joint: j,
                parent: parent.map(|p| slots[p]),
                offset: skeleton.offsets[j],
            });
        }
        let links = std::array::from_fn(|c| {
            mapping[c].map(|source| {
                let t_pose = fixed.joints[c] * fixed.world * rotations[source.rotation];
                Link {
                    slot: slots[source.rotation],
                    fix: t_pose.conj(),
                }
            })
        });
        let to_hips = mapping[HIPS].map_or_else(Vec::new, |h| {
            skeleton.path(h.anchor).into_iter().map(|j| slots[j]).collect()
        });
        Ok(Self {
            joints: skeleton.len(),
            globals: vec![Quat::IDENTITY; walk.len()],
            at: vec![[0.0; 3]; walk.len()],
            walk,
            links,
            anchors: mapping.map(|source| source.map(|s| slots[s.anchor])),
            world: fixed.world,
            to_hips,
            mask: mapping.map(|s| s.is_some()),
            sources: sources(skeleton, &mapping),
            ends: mapping.map(|source| source.map(|s| [s.anchor, s.rotation])),
            names: skeleton.names.clone(),
        })
    }

    /// How many joints a source pose has.
    #[must_use]
    pub fn joints(&self) -> usize {
        self.joints
    }

    /// Which canonical joints have a source.
    #[must_use]
    pub fn mask(&self) -> &[bool; JOINT_COUNT] {
        &self.mask
    }

    /// Per canonical joint the source joints composed into its local rotation, top down; empty where there is none.
    #[must_use]
    pub fn sources(&self) -> &[Vec<usize>] {
        &self.sources
    }

    /// World rotation of the source joint of each canonical one in the T-pose, after [`Retargeter::world`].
    #[must_use]
    pub fn t_pose(&self) -> [Option<Quat>; JOINT_COUNT] {
        self.links.map(|link| link.map(|l| l.fix.conj()))
    }

    /// Per canonical joint the first and the last source joint that were found for it: where it is, what turns it.
    #[must_use]
    pub fn ends(&self) -> &[Option<[usize; 2]>; JOINT_COUNT] {
        &self.ends
    }

    /// The source's joint names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// True when `other` maps every pose as this one does, offsets between root and hips aside.
    #[must_use]
    pub fn same_map(&self, other: &Self) -> bool {
        let close = |a: Quat, b: Quat| a.angle_to(b) < 1e-6;
        let links = self.links.iter().zip(&other.links).all(|pair| match pair {
            (Some(a), Some(b)) => a.slot == b.slot && close(a.fix, b.fix),
            (None, None) => true,
            _ => false,
        });
        let walked = |r: &Self| r.walk.iter().map(|s| (s.joint, s.parent)).collect::<Vec<_>>();
        links
            && self.joints == other.joints
            && close(self.world, other.world)
            && walked(self) == walked(other)
    }

    pub(crate) fn link(&self, joint: usize) -> Option<Link> {
        self.links[joint]
    }

    /// The turn of the source's world: its up to +y, the way its rest pose faces to +z.
    #[must_use]
    pub fn world(&self) -> Quat {
        self.world
    }

    /// Where the source joints of the pose that [`Retargeter::apply`] was last given are, in the source's world.
    #[must_use]
    pub fn places(&mut self, root: [f64; 3]) -> Places {
        for (slot, step) in self.walk.iter().enumerate() {
            let from = |p: usize| add(self.at[p], self.globals[p].rotate(step.offset));
            self.at[slot] = step.parent.map_or(root, from);
        }
        self.anchors.map(|anchor| anchor.map(|slot| self.at[slot]))
    }

    /// World rotations of the source joints that turn the canonical ones, as [`Retargeter::places`].
    #[must_use]
    pub fn turns(&self) -> [Option<Quat>; JOINT_COUNT] {
        self.links.map(|link| link.map(|l| self.globals[l.slot]))
    }

    /// Maps one pose: unit local rotations and the root's translation (metres) to canonical local rotations; returns
    /// the hips' position.
    ///
    /// The root translation is the position of the source's root joint. `w >= 0` in every result.
    ///
    /// # Panics
    /// Never for slices of [`Retargeter::joints`] entries; a shorter one panics on indexing.
    pub fn apply(&mut self, local: &[Quat], root: [f64; 3], out: &mut [Quat; JOINT_COUNT]) -> [f64; 3] {
        for (slot, step) in self.walk.iter().enumerate() {
            let own = local[step.joint];
            self.globals[slot] = step.parent.map_or(own, |p| self.globals[p] * own);
        }
        let mut global = [Quat::IDENTITY; JOINT_COUNT];
        for j in 0..JOINT_COUNT {
            let above = if j == HIPS {
                Quat::IDENTITY
            } else {
                global[PARENTS[j] as usize]
            };
            if let Some(link) = self.links[j] {
                global[j] = self.world * self.globals[link.slot] * link.fix;
                let q = (above.conj() * global[j]).normalize_or(Quat::IDENTITY);
                out[j] = if q.w < 0.0 { -q } else { q };
            } else {
                global[j] = above;
                out[j] = Quat::IDENTITY;
            }
        }
        // The root translation already places the first joint; what lies between it and the hips is added.
        let mut position = root;
        for pair in self.to_hips.windows(2) {
            let offset = self.walk[pair[1]].offset;
            position = add(position, self.globals[pair[0]].rotate(offset));
        }
        self.world.rotate(position)
    }
}

/// The chain of source joints between each canonical joint and its nearest mapped parent.
fn sources(skeleton: &Skeleton, mapping: &Mapping) -> Vec<Vec<usize>> {
    (0..JOINT_COUNT)
        .map(|j| {
            let Some(own) = mapping[j] else {
                return Vec::new();
            };
            let path = skeleton.path(own.rotation);
            if j == HIPS {
                return path;
            }
            let top = parent(mapping, j).and_then(|s| path.iter().position(|&x| x == s.rotation));
            path[top.map_or(0, |t| t + 1)..].to_vec()
        })
        .collect()
}

/// How far, in radians, a skeleton's limbs in its rest pose (`rest_local`, else the zero pose) are from a T-pose.
///
/// A pose within [`T_POSE_TOLERANCE`] is one: that is how a first frame is told from the motion that follows.
///
/// # Errors
/// As [`Retargeter::compile`].
pub fn t_pose_deviation(skeleton: &Skeleton) -> Result<f64, MotionError> {
    let order = skeleton.order()?;
    let mapping = map(skeleton, &order)?;
    let (_, positions) = skeleton.rest_globals(&order);
    Ok(deviation(skeleton, &mapping, &positions))
}
