//! Completion of a body from few sensors: a small recurrent network solves the joints that are not measured.
//!
//! If no more than [`MAX_MEASURED`] joints are measured, the others are solved. A GRU, and a linear map in parallel,
//! take the measured joints' rotations in the world without heading, their angular velocities, and which joints they
//! are. Their sum gives the rotation of each other joint in the same frame, relative to the nearest measured joint,
//! and its expected error. Measured joints keep their world rotation up to rounding. Nothing looks ahead; a frame
//! takes some 50 us. The weights are trained by `training.tasks.completion`.
//!
//! Trackers also know where head, hands and feet are. A torso and limbs whose given rotations only encode those
//! positions are solved like the others, and then leant, pointed and bent so that they reach them.

use std::sync::{Arc, OnceLock};

use anticip_geometry::Quat;
use safetensors::{Dtype, SafeTensors};

use crate::canonical::{ARMS, HEAD, HIPS, JOINT_COUNT, LEGS, NECK, OFFSETS, PARENTS, SPINE, UPPER_CHEST};
use crate::inverse::{BACK, FORWARD, arm, combine_distance, leg, outwards};
use crate::vector::{self, Vector, add, angle, cross, length, minus, scaled};

/// A body of at most this many measured joints is completed; one of more is used as it is.
pub const MAX_MEASURED: usize = 10;
/// Inputs of the network for each joint: two columns of its rotation, its turn since the last frame, and a one.
const IN: usize = 10;
/// Scale of the turn (sines).
const SPEED: f64 = 10.0;
/// Outputs of the network for each joint: two columns, and the logarithm of the expected error (radians).
const OUT: usize = 7;
/// Expected error (radians) that gives a confidence of 1/e.
const ERROR_SCALE: f32 = 0.5;

/// The weights of the trained network.
fn weights() -> Option<&'static SafeTensors<'static>> {
    static TRAINED: OnceLock<Option<SafeTensors<'static>>> = OnceLock::new();
    TRAINED
        .get_or_init(|| SafeTensors::deserialize(include_bytes!("../data/completion.safetensors")).ok())
        .as_ref()
}

/// A fully connected layer.
#[derive(Debug)]
struct Layer {
    /// Shape (outputs, inputs).
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Layer {
    /// Takes the given outputs and inputs of a trained layer; without `bias` it is zero.
    fn select(weight: &str, bias: Option<&str>, outputs: &[usize], inputs: &[usize]) -> Option<Self> {
        let load = |name: &str| {
            let view = weights()?.tensor(name).ok()?;
            let width = view.shape().get(1).copied().unwrap_or(1);
            let (bytes, _) = view.data().as_chunks::<4>();
            let values: Vec<f32> = bytes.iter().map(|b| f32::from_le_bytes(*b)).collect();
            (view.dtype() == Dtype::F32).then_some((values, width))
        };
        let (weight, width) = load(weight)?;
        let row = |row: &usize| {
            inputs
                .iter()
                .map(|column| weight.get(row * width + column).copied())
                .collect()
        };
        let rows: Option<Vec<Vec<f32>>> = outputs.iter().map(row).collect();
        let bias = match bias {
            Some(name) => {
                let (bias, _) = load(name)?;
                outputs
                    .iter()
                    .map(|row| bias.get(*row).copied())
                    .collect::<Option<_>>()?
            }
            None => vec![0.0; outputs.len()],
        };
        Some(Self {
            weight: rows?.concat(),
            bias,
        })
    }

    fn apply(&self, x: &[f32], out: &mut Vec<f32>) {
        let rows = self.weight.chunks_exact(x.len().max(1));
        out.clear();
        out.extend(self.bias.iter().zip(rows).map(|(bias, row)| bias + dot(row, x)));
    }
}

/// Inner product, with sixteen partial sums that the compiler keeps in vector registers.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((blocks, rest), (others, last)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    let mut sums = [0.0_f32; 16];
    for (x, y) in blocks.iter().zip(others) {
        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
            *sum += x * y;
        }
    }
    sums.iter().sum::<f32>() + rest.iter().zip(last).map(|(x, y)| x * y).sum::<f32>()
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Number of bones between two joints.
fn bone_distance(a: usize, b: usize) -> usize {
    let ancestors = |mut j: usize| {
        let mut chain = vec![j];
        while let Ok(parent) = usize::try_from(PARENTS[j]) {
            chain.push(parent);
            j = parent;
        }
        chain
    };
    let (a, b) = (ancestors(a), ancestors(b));
    let shared = a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .take_while(|(x, y)| x == y)
        .count();
    a.len() + b.len() - 2 * shared
}

/// The network, reduced to the inputs and outputs of a body with certain measured joints.
#[derive(Debug)]
struct Network {
    measured: Vec<usize>,
    /// Each solved joint, and the index in `measured` of the joint that its rotation is relative to.
    solved: Vec<(usize, usize)>,
    input: Layer,
    recurrent: Layer,
    output: Layer,
    /// The part of the output that is linear in the input.
    skip: Layer,
}

impl Network {
    fn new(mask: &[bool; JOINT_COUNT]) -> Option<Self> {
        let measured: Vec<usize> = (0..JOINT_COUNT).filter(|j| mask[*j]).collect();
        let missing: Vec<usize> = (0..JOINT_COUNT).filter(|j| !mask[*j]).collect();
        let hidden = weights()?
            .tensor("gru.weight_hh_l0")
            .ok()?
            .shape()
            .get(1)
            .copied()?;
        let (gates, units): (Vec<usize>, Vec<usize>) = ((0..3 * hidden).collect(), (0..hidden).collect());
        let columns: Vec<usize> = measured.iter().flat_map(|j| IN * j..IN * (j + 1)).collect();
        let rows: Vec<usize> = missing.iter().flat_map(|j| OUT * j..OUT * (j + 1)).collect();
        let nearest = |j: &usize| {
            let indices = 0..measured.len();
            (
                *j,
                indices
                    .min_by_key(|n| bone_distance(*j, measured[*n]))
                    .unwrap_or(0),
            )
        };
        Some(Self {
            solved: missing.iter().map(nearest).collect(),
            input: Layer::select("gru.weight_ih_l0", Some("gru.bias_ih_l0"), &gates, &columns)?,
            recurrent: Layer::select("gru.weight_hh_l0", Some("gru.bias_hh_l0"), &gates, &units)?,
            output: Layer::select("head.weight", Some("head.bias"), &rows, &units)?,
            skip: Layer::select("skip.weight", None, &rows, &columns)?,
            measured,
        })
    }

    /// Size of the hidden state.
    fn width(&self) -> usize {
        self.recurrent.bias.len() / 3
    }
}

/// Memory of one frame, reused.
#[derive(Debug, Clone, Default)]
struct Scratch {
    /// World rotations of the measured joints.
    now: Vec<Quat>,
    columns: Vec<f32>,
    input: Vec<f32>,
    state: Vec<f32>,
    recurrent: Vec<f32>,
    linear: Vec<f32>,
}

/// Solves the joints that a stream of canonical frames at 50 Hz does not measure; after the first frame nothing is
/// allocated.
#[derive(Debug, Clone)]
pub struct Completion {
    network: Arc<Network>,
    /// Joints (bit j) whose rotations only encode where other joints are.
    position_only: u32,
    hidden: Vec<f32>,
    /// World rotations of the measured joints in the previous frame.
    before: Vec<Quat>,
    yaw: Quat,
    confidence: [f32; JOINT_COUNT],
    scratch: Scratch,
}

impl Completion {
    /// Creates a completion for a body with the joints of `mask`; `None` if it needs none or has no joint at all.
    #[must_use]
    pub fn new(mask: &[bool; JOINT_COUNT]) -> Option<Self> {
        let measured = mask.iter().filter(|present| **present).count();
        if measured > MAX_MEASURED {
            return None;
        }
        Self::with_position_only(mask, 0)
    }

    /// Creates a completion for a body in which the rotations of `position_only` (bit j) only encode where other
    /// joints are, as [`crate::Trackers::solve`] returns them. The others are solved however many joints `mask` has.
    #[must_use]
    pub fn with_position_only(mask: &[bool; JOINT_COUNT], position_only: u32) -> Option<Self> {
        let mask: [bool; JOINT_COUNT] = std::array::from_fn(|j| mask[j] && position_only & 1 << j == 0);
        let measured = mask.iter().filter(|present| **present).count();
        if measured == 0 {
            return None;
        }
        // The hips alone indicate so little about the limbs that a guess is worse than the rest pose.
        if mask[HIPS] && measured == 1 {
            return None;
        }
        let network = Network::new(&mask)?;
        Some(Self {
            hidden: vec![0.0; network.width()],
            network: Arc::new(network),
            position_only,
            before: Vec::new(),
            yaw: Quat::IDENTITY,
            confidence: mask.map(|present| f32::from(u8::from(present))),
            scratch: Scratch::default(),
        })
    }

    /// Forgets the stream.
    pub fn reset(&mut self) {
        self.hidden.fill(0.0);
        self.before.clear();
        self.yaw = Quat::IDENTITY;
    }

    /// Confidence in each joint of the newest frame: 1 if measured, else `exp(-error / 0.5)` with its expected error
    /// in radians; 0 before the first frame.
    #[must_use]
    pub fn confidence(&self) -> &[f32; JOINT_COUNT] {
        &self.confidence
    }

    /// Completes a frame of local rotations in place; those of joints that are neither measured nor position-only are
    /// ignored.
    pub fn push(&mut self, pose: &mut [Quat]) {
        let net = Arc::clone(&self.network);
        let mut scratch = std::mem::take(&mut self.scratch);
        let Scratch { now, columns, .. } = &mut scratch;
        // World rotations as given: a joint without one has that of its parent.
        let mut world = [Quat::IDENTITY; JOINT_COUNT];
        let mut measured = net.measured.iter().peekable();
        for j in 0..JOINT_COUNT {
            let parent = usize::try_from(PARENTS[j]).map_or(Quat::IDENTITY, |p| world[p]);
            let is_given = measured.next_if(|m| **m == j).is_some() || self.position_only & 1 << j != 0;
            world[j] = if is_given { parent * pose[j] } else { parent };
        }
        let input_world = world;
        now.clear();
        now.extend(net.measured.iter().map(|j| world[*j]));
        if self.before.is_empty() {
            self.before.clone_from(now);
        }
        // Heading of the first measured joint: its twist about the vertical.
        self.yaw = Quat::new(now[0].w, 0.0, now[0].y, 0.0).normalize_or(self.yaw);
        let back = self.yaw.conj();
        columns.clear();
        for (q, before) in now.iter().zip(&self.before) {
            columns.extend(two_columns(back * *q));
            let turn = *q * before.conj();
            let sine = 2.0 * SPEED * turn.w;
            columns.extend(
                back.rotate([turn.x * sine, turn.y * sine, turn.z * sine])
                    .map(|v| v as f32),
            );
            columns.push(1.0);
        }
        std::mem::swap(&mut self.before, now);
        self.step(&net, &mut scratch);
        let Scratch {
            columns,
            recurrent,
            linear,
            ..
        } = &mut scratch;
        net.output.apply(&self.hidden, recurrent);
        net.skip.apply(columns, linear);
        let outputs = recurrent.chunks_exact(OUT).zip(linear.chunks_exact(OUT));
        for ((joint, nearest), (recurrent, linear)) in net.solved.iter().zip(outputs) {
            let values: [f32; OUT] = std::array::from_fn(|i| recurrent[i] + linear[i]);
            let base = &columns[IN * nearest..IN * nearest + 6];
            let six: [f64; 6] = std::array::from_fn(|i| f64::from(base[i]) + f64::from(values[i]));
            // Columns that span no frame: the rotation of the nearest measured joint is used.
            world[*joint] = rotation(six).map_or(self.before[*nearest], |q| self.yaw * q);
            self.confidence[*joint] = (-values[6].exp() / ERROR_SCALE).exp();
        }
        self.scratch = scratch;
        self.reach(&input_world, &mut world);
        for j in 0..JOINT_COUNT {
            let parent = usize::try_from(PARENTS[j]).map_or(Quat::IDENTITY, |p| world[p]);
            pose[j] = (parent.conj() * world[j]).normalize_or(Quat::IDENTITY);
        }
    }

    /// Moves head, hands and feet to where the given rotations have them. The torso leans until the head is above its
    /// end as given; limbs point to their given ends, and bend by the distance of these and by the solved angle.
    fn reach(&self, input_world: &[Quat; JOINT_COUNT], world: &mut [Quat; JOINT_COUNT]) {
        if self.position_only == 0 {
            return;
        }
        let is_position_only = |joint: usize| self.position_only & 1 << joint != 0;
        let (target, mut found) = (joint_positions(input_world), joint_positions(world));
        if is_position_only(UPPER_CHEST) {
            let above = |positions: &[Vector; JOINT_COUNT]| minus(positions[HEAD], positions[SPINE]);
            let lean = Quat::from_two_vectors(above(&found), above(&target));
            for joint in (SPINE..=NECK).chain(ARMS) {
                world[joint] = lean * world[joint];
            }
            found = joint_positions(world);
        }
        for (side, shoulder) in ARMS.into_iter().enumerate() {
            for (upper, ahead) in [(shoulder + 1, BACK), (LEGS[side], FORWARD)] {
                let [lower, end] = [upper + 1, upper + 2];
                if !is_position_only(lower) {
                    continue;
                }
                let lengths = [lower, end].map(|joint| length(OFFSETS[joint]));
                let bend = angle(
                    world[upper].rotate(OFFSETS[lower]),
                    world[lower].rotate(OFFSETS[end]),
                );
                let doubt = f64::from(-ERROR_SCALE * self.confidence[lower].max(f32::MIN_POSITIVE).ln());
                let reach = minus(target[end], found[upper]);
                let distance = length(reach).max(1e-6);
                let combined = combine_distance(distance, bend, lengths, doubt);
                let end = add(found[upper], scaled(reach, combined / distance));
                let direction = input_world[upper].rotate(ahead);
                let bones = if upper == LEGS[side] {
                    leg(found[upper], end, direction, lengths)
                } else {
                    let elbow = add(direction, world[upper].rotate(ahead));
                    arm(found[upper], end, elbow, lengths, outwards(side))
                };
                if let Some(bones) = bones {
                    [world[upper], world[lower]] = bones;
                }
            }
        }
    }

    /// One step of the recurrence.
    fn step(&mut self, net: &Network, scratch: &mut Scratch) {
        let width = net.width();
        let Scratch {
            columns,
            input,
            state,
            ..
        } = scratch;
        net.input.apply(columns, input);
        net.recurrent.apply(&self.hidden, state);
        for (i, h) in self.hidden.iter_mut().enumerate() {
            let reset = sigmoid(input[i] + state[i]);
            let update = sigmoid(input[width + i] + state[width + i]);
            // tanh x = 2 sigmoid 2x - 1
            let new = 2.0 * sigmoid(2.0 * (input[2 * width + i] + reset * state[2 * width + i])) - 1.0;
            *h = new + update * (*h - new);
        }
    }
}

/// Positions of the canonical body's joints relative to its hips, from world rotations.
pub(crate) fn joint_positions(world: &[Quat; JOINT_COUNT]) -> [Vector; JOINT_COUNT] {
    let mut positions = [[0.0; 3]; JOINT_COUNT];
    for j in 0..JOINT_COUNT {
        if let Ok(parent) = usize::try_from(PARENTS[j]) {
            positions[j] = add(positions[parent], world[parent].rotate(OFFSETS[j]));
        }
    }
    positions
}

/// First two columns of a rotation's matrix.
fn two_columns(q: Quat) -> [f32; 6] {
    let m = q.to_matrix();
    std::array::from_fn(|i| m[i % 3][i / 3] as f32)
}

/// Rotation whose matrix starts with these two columns after orthonormalisation; `None` if they span no plane.
fn rotation([ax, ay, az, bx, by, bz]: [f64; 6]) -> Option<Quat> {
    let unit = |[x, y, z]: [f64; 3]| {
        let norm = (x * x + y * y + z * z).sqrt();
        (norm > 1e-6).then(|| [x / norm, y / norm, z / norm])
    };
    let a = unit([ax, ay, az])?;
    let along = vector::dot(a, [bx, by, bz]);
    let b = unit([bx - along * a[0], by - along * a[1], bz - along * a[2]])?;
    let c = cross(a, b);
    Quat::from_matrix(std::array::from_fn(|i| [a[i], b[i], c[i]])).try_normalize()
}

#[cfg(test)]
mod tests;
