//! Retargeting of any mapped skeleton's poses to the canonical body.

use anticip_geometry::Quat;

use crate::MotionError;
use crate::canonical::{HIPS, JOINT_COUNT, PARENTS};
use crate::mapping::{Mapping, ends, map, parent};
use crate::rest::{correction, deviation};
use crate::skeleton::Skeleton;
use crate::vector::add;

/// A pose whose limbs are all this close (radians) to the canonical directions is a T-pose.
pub const T_POSE_TOLERANCE: f64 = 25.0 * std::f64::consts::PI / 180.0;

/// One step of a walk down the source hierarchy.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Index in the source's arrays.
    joint: usize,
    /// Slot of the parent in the walk; `None` for a root.
    parent: Option<usize>,
    /// Offset from the parent.
    offset: [f64; 3],
}

/// Source of one canonical joint's rotation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// Slot of the source joint in the walk.
    slot: usize,
    /// Inverse of the source joint's global rotation in the T-pose, applied on the right.
    pub(crate) t_pose_inverse: Quat,
}

/// Positions of each canonical joint's source; `None` if it has none.
pub type Positions = [Option<[f64; 3]>; JOINT_COUNT];

/// Maps poses of one skeleton to the canonical body; compiled once, applied to each frame without allocating.
///
/// It maps global rotations: `G_canonical = W * G_source * inverse(W * G_source in a T-pose)`, where `W` rotates the
/// source's world to y up and +z ahead in the T-pose; canonical local rotations follow from the parents'. This
/// composes chains of source joints between two canonical ones. Joints that the source lacks are the identity and 0
/// in the mask.
///
/// The T-pose is the skeleton's rest pose with its limbs straightened (see `docs/body.md`).
#[derive(Debug, Clone)]
pub struct Retargeter {
    walk: Vec<Step>,
    links: [Option<Link>; JOINT_COUNT],
    /// Slots of the joints that give the canonical joints' positions.
    anchors: [Option<usize>; JOINT_COUNT],
    world: Quat,
    /// Slots from the root down to the joint that gives the hips' position.
    to_hips: Vec<usize>,
    mask: [bool; JOINT_COUNT],
    sources: Vec<Vec<usize>>,
    ends: [Option<[usize; 2]>; JOINT_COUNT],
    globals: Vec<Quat>,
    /// Scratch of [`Retargeter::joint_positions`].
    positions: Vec<[f64; 3]>,
    names: Vec<String>,
}

impl Retargeter {
    /// Compiles the mapping of a skeleton to the canonical body.
    ///
    /// # Errors
    /// [`MotionError::Skeleton`] or [`MotionError::Shape`] if the hierarchy is invalid, [`MotionError::Unmapped`] if
    /// a required joint has no source, [`MotionError::Hierarchy`] if names and hierarchy contradict each other.
    pub fn compile(skeleton: &Skeleton) -> Result<Self, MotionError> {
        let order = skeleton.order()?;
        let mapping = map(skeleton, &order)?;
        let (rotations, positions) = skeleton.rest_globals(&order);
        let correction = correction(skeleton, &mapping, &positions);

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
                let t_pose = correction.joints[c] * correction.world * rotations[source.rotation];
                Link {
                    slot: slots[source.rotation],
                    t_pose_inverse: t_pose.conj(),
                }
            })
        });
        let to_hips = mapping[HIPS].map_or_else(Vec::new, |h| {
            skeleton.path(h.anchor).into_iter().map(|j| slots[j]).collect()
        });
        Ok(Self {
            globals: vec![Quat::IDENTITY; walk.len()],
            positions: vec![[0.0; 3]; walk.len()],
            walk,
            links,
            anchors: mapping.map(|source| source.map(|s| slots[s.anchor])),
            world: correction.world,
            to_hips,
            mask: mapping.map(|s| s.is_some()),
            sources: sources(skeleton, &mapping),
            ends: ends(mapping),
            names: skeleton.names.clone(),
        })
    }

    /// Number of joints of a source pose.
    #[must_use]
    pub fn joints(&self) -> usize {
        self.names.len()
    }

    /// Whether each canonical joint has a source.
    #[must_use]
    pub fn mask(&self) -> &[bool; JOINT_COUNT] {
        &self.mask
    }

    /// For each canonical joint the source joints composed into its local rotation, top down; empty if there are
    /// none.
    #[must_use]
    pub fn sources(&self) -> &[Vec<usize>] {
        &self.sources
    }

    /// World rotation of each canonical joint's source joint in the T-pose, after [`Retargeter::world`].
    #[must_use]
    pub fn t_pose(&self) -> [Option<Quat>; JOINT_COUNT] {
        self.links.map(|link| link.map(|l| l.t_pose_inverse.conj()))
    }

    /// For each canonical joint the first and the last source joint: the one gives its position, the other its
    /// rotation.
    #[must_use]
    pub fn source_ends(&self) -> &[Option<[usize; 2]>; JOINT_COUNT] {
        &self.ends
    }

    /// The source's joint names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether `other` maps every pose like this one, offsets between root and hips aside.
    #[must_use]
    pub fn same_map(&self, other: &Self) -> bool {
        let close = |a: Quat, b: Quat| a.angle_to(b) < 1e-6;
        let links = self.links.iter().zip(&other.links).all(|pair| match pair {
            (Some(a), Some(b)) => a.slot == b.slot && close(a.t_pose_inverse, b.t_pose_inverse),
            (None, None) => true,
            _ => false,
        });
        let steps = |r: &Self| r.walk.iter().map(|s| (s.joint, s.parent)).collect::<Vec<_>>();
        links
            && self.joints() == other.joints()
            && close(self.world, other.world)
            && steps(self) == steps(other)
    }

    pub(crate) fn link(&self, joint: usize) -> Option<Link> {
        self.links[joint]
    }

    /// Rotation of the source's world: its up to +y, its rest pose's forward to +z.
    #[must_use]
    pub fn world(&self) -> Quat {
        self.world
    }

    /// Positions, in the source's world, of the source joints in the pose last passed to [`Retargeter::apply`].
    #[must_use]
    pub fn joint_positions(&mut self, root: [f64; 3]) -> Positions {
        for (slot, step) in self.walk.iter().enumerate() {
            let from_parent = |p: usize| add(self.positions[p], self.globals[p].rotate(step.offset));
            self.positions[slot] = step.parent.map_or(root, from_parent);
        }
        self.anchors.map(|anchor| anchor.map(|slot| self.positions[slot]))
    }

    /// World rotations of the source joints, as [`Retargeter::joint_positions`] gives their positions.
    #[must_use]
    pub fn joint_rotations(&self) -> [Option<Quat>; JOINT_COUNT] {
        self.links.map(|link| link.map(|l| self.globals[l.slot]))
    }

    /// Maps one pose (unit local rotations and the root's translation in metres) to canonical local rotations;
    /// returns the hips' position.
    ///
    /// The root translation is the position of the source's root joint. Every result has `w >= 0`.
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
            let parent = if j == HIPS {
                Quat::IDENTITY
            } else {
                global[PARENTS[j] as usize]
            };
            if let Some(link) = self.links[j] {
                global[j] = self.world * self.globals[link.slot] * link.t_pose_inverse;
                let q = (parent.conj() * global[j]).normalize_or(Quat::IDENTITY);
                out[j] = if q.w < 0.0 { -q } else { q };
            } else {
                global[j] = parent;
                out[j] = Quat::IDENTITY;
            }
        }
        // The root translation is that of the first joint; offsets between it and the hips are added.
        let mut position = root;
        for pair in self.to_hips.windows(2) {
            let offset = self.walk[pair[1]].offset;
            position = add(position, self.globals[pair[0]].rotate(offset));
        }
        self.world.rotate(position)
    }
}

/// Chain of source joints between each canonical joint and its nearest mapped parent.
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

/// Largest angle (radians) of a skeleton's limbs in its rest pose (`rest_local`, else the zero pose) from a T-pose.
///
/// A pose within [`T_POSE_TOLERANCE`] is a T-pose; this distinguishes a first frame from the motion that follows.
///
/// # Errors
/// As [`Retargeter::compile`].
pub fn t_pose_deviation(skeleton: &Skeleton) -> Result<f64, MotionError> {
    let order = skeleton.order()?;
    let mapping = map(skeleton, &order)?;
    let (_, positions) = skeleton.rest_globals(&order);
    Ok(deviation(skeleton, &mapping, &positions))
}
