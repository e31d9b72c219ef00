//! A body from few sensors: the joints that nobody measured, as a small recurrent network has learned them.
//!
//! Where no more than [`FEW`] joints are measured, the others are solved: a GRU, and a linear map beside it, read the
//! measured joints' rotations in the world, heading removed, how fast they turn, and which they are; together they say
//! every other joint's rotation in the same frame, as what it differs from the nearest measured one's, and how far off
//! that may be. Measured joints keep their rotation in the world to the bit that arithmetic allows. Nothing looks ahead;
//! a frame costs some 50 us. The weights are of `training.tasks.completion`.
//!
//! Trackers know where head, hands and feet are as well. A torso and limbs that only put them there are solved like the
//! others, and then leant, pointed and bent by where these ends are.

use std::sync::{Arc, OnceLock};

use anticip_geometry::Quat;
use safetensors::{Dtype, SafeTensors};

use crate::canonical::{ARMS, HEAD, HIPS, JOINT_COUNT, LEGS, NECK, OFFSETS, PARENTS, SPINE, UPPER_CHEST};
use crate::inverse::{BACK, FORWARD, agreed, arm, leg, outwards};
use crate::vector::{self, Vector, add, angle, cross, length, minus, scaled};

/// A body of so many measured joints at most is completed; one of more is what its suit says it is.
pub const FEW: usize = 10;
/// Numbers of a joint that go in: two columns of its rotation, its turn since the last frame (sines, times ten), one.
const IN: usize = 10;
const SPEED: f64 = 10.0;
/// Numbers of a joint that come out: two columns, logarithm of the expected error (radians).
const OUT: usize = 7;
/// An expected error of so many radians is a confidence of 1/e.
const DOUBT: f32 = 0.5;

/// The trained network.
fn trained() -> Option<&'static SafeTensors<'static>> {
    static TRAINED: OnceLock<Option<SafeTensors<'static>>> = OnceLock::new();
    TRAINED
        .get_or_init(|| SafeTensors::deserialize(include_bytes!("../data/completion.safetensors")).ok())
        .as_ref()
}

/// A fully connected layer.
#[derive(Debug)]
struct Layer {
    /// (outputs, inputs)
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Layer {
    /// Some of the outputs of a trained layer, and of its inputs; without a name of a bias it has none.
    fn cut(weight: &str, bias: Option<&str>, outputs: &[usize], inputs: &[usize]) -> Option<Self> {
        let numbers = |name: &str| {
            let view = trained()?.tensor(name).ok()?;
            let width = view.shape().get(1).copied().unwrap_or(1);
            let (bytes, _) = view.data().as_chunks::<4>();
            let values: Vec<f32> = bytes.iter().map(|b| f32::from_le_bytes(*b)).collect();
            (view.dtype() == Dtype::F32).then_some((values, width))
        };
        let (weight, width) = numbers(weight)?;
        let row = |row: &usize| {
            inputs
                .iter()
                .map(|column| weight.get(row * width + column).copied())
                .collect()
        };
        let rows: Option<Vec<Vec<f32>>> = outputs.iter().map(row).collect();
        let bias = match bias {
            Some(name) => {
                let (bias, _) = numbers(name)?;
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

    fn apply(&self, x: &[f32]) -> Vec<f32> {
        let rows = self.weight.chunks_exact(x.len().max(1));
        self.bias
            .iter()
            .zip(rows)
            .map(|(bias, row)| bias + dot(row, x))
            .collect()
    }
}

/// The inner product, in sixteen partial sums that a compiler keeps in vector registers.
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

/// Bones between two joints.
fn apart(a: usize, b: usize) -> usize {
    let above = |mut j: usize| {
        let mut chain = vec![j];
        while let Ok(parent) = usize::try_from(PARENTS[j]) {
            chain.push(parent);
            j = parent;
        }
        chain
    };
    let (a, b) = (above(a), above(b));
    let shared = a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .take_while(|(x, y)| x == y)
        .count();
    a.len() + b.len() - 2 * shared
}

/// The network for a body of certain measured joints: what the others would give is left out.
#[derive(Debug)]
struct Network {
    measured: Vec<usize>,
    /// Each joint that is solved, and the measured one that it is told against, by its place in `measured`.
    solved: Vec<(usize, usize)>,
    input: Layer,
    recurrent: Layer,
    output: Layer,
    /// What of the output is linear in the input.
    skip: Layer,
}

impl Network {
    fn new(mask: &[bool; JOINT_COUNT]) -> Option<Self> {
        let measured: Vec<usize> = (0..JOINT_COUNT).filter(|j| mask[*j]).collect();
        let missing: Vec<usize> = (0..JOINT_COUNT).filter(|j| !mask[*j]).collect();
        let hidden = trained()?
            .tensor("gru.weight_hh_l0")
            .ok()?
            .shape()
            .get(1)
            .copied()?;
        let (gates, units): (Vec<usize>, Vec<usize>) = ((0..3 * hidden).collect(), (0..hidden).collect());
        let columns: Vec<usize> = measured.iter().flat_map(|j| IN * j..IN * (j + 1)).collect();
        let rows: Vec<usize> = missing.iter().flat_map(|j| OUT * j..OUT * (j + 1)).collect();
        let nearest = |j: &usize| {
            let places = 0..measured.len();
            (*j, places.min_by_key(|n| apart(*j, measured[*n])).unwrap_or(0))
        };
        Some(Self {
            solved: missing.iter().map(nearest).collect(),
            input: Layer::cut("gru.weight_ih_l0", Some("gru.bias_ih_l0"), &gates, &columns)?,
            recurrent: Layer::cut("gru.weight_hh_l0", Some("gru.bias_hh_l0"), &gates, &units)?,
            output: Layer::cut("head.weight", Some("head.bias"), &rows, &units)?,
            skip: Layer::cut("skip.weight", None, &rows, &columns)?,
            measured,
        })
    }

    /// How wide the hidden state is.
    fn width(&self) -> usize {
        self.recurrent.bias.len() / 3
    }
}

/// Solves the joints that a stream of canonical frames at 50 Hz does not measure.
#[derive(Debug, Clone)]
pub struct Completion {
    network: Arc<Network>,
    /// Joints (bit j) whose rotations say where others are, and no more.
    placed: u32,
    hidden: Vec<f32>,
    /// Rotations of the measured joints in the world in the frame before.
    before: Vec<Quat>,
    yaw: Quat,
    confidence: [f32; JOINT_COUNT],
}

impl Completion {
    /// For a body that has the joints of `mask`; none where it has all that it needs, or no joint at all.
    #[must_use]
    pub fn new(mask: &[bool; JOINT_COUNT]) -> Option<Self> {
        let measured = mask.iter().filter(|there| **there).count();
        if measured > FEW {
            return None;
        }
        Self::placed(mask, 0)
    }

    /// For a body of which `placed` (bit j) are the joints that only say where others are: as
    /// [`crate::Trackers::solve`] tells them. However many joints of `mask` there are, the others are solved.
    #[must_use]
    pub fn placed(mask: &[bool; JOINT_COUNT], placed: u32) -> Option<Self> {
        let mask: [bool; JOINT_COUNT] = std::array::from_fn(|j| mask[j] && placed & 1 << j == 0);
        let measured = mask.iter().filter(|there| **there).count();
        if measured == 0 {
            return None;
        }
        // The hips alone say so little of the limbs that a guess is worse than rest.
        if mask[HIPS] && measured == 1 {
            return None;
        }
        let network = Network::new(&mask)?;
        Some(Self {
            hidden: vec![0.0; network.width()],
            network: Arc::new(network),
            placed,
            before: Vec::new(),
            yaw: Quat::IDENTITY,
            confidence: mask.map(|there| f32::from(u8::from(there))),
        })
    }

    /// The next frame is a first frame again.
    pub fn reset(&mut self) {
        self.hidden.fill(0.0);
        self.before.clear();
        self.yaw = Quat::IDENTITY;
    }

    /// How sure each joint of the newest frame is: 1 where it was measured, else `exp(-error / 0.5)` of the error that
    /// is expected of it, radians; 0 before the first frame.
    #[must_use]
    pub fn confidence(&self) -> &[f32; JOINT_COUNT] {
        &self.confidence
    }

    /// Takes a frame of local rotations, those of joints that are neither measured nor placed anything, and completes it.
    pub fn push(&mut self, pose: &mut [Quat]) {
        let net = Arc::clone(&self.network);
        // As they were measured: a joint between stands where the one above it does.
        let mut world = [Quat::IDENTITY; JOINT_COUNT];
        let mut measured = net.measured.iter().peekable();
        for j in 0..JOINT_COUNT {
            let above = usize::try_from(PARENTS[j]).map_or(Quat::IDENTITY, |p| world[p]);
            let there = measured.next_if(|m| **m == j).is_some() || self.placed & 1 << j != 0;
            world[j] = if there { above * pose[j] } else { above };
        }
        let given = world;
        let now: Vec<Quat> = net.measured.iter().map(|j| world[*j]).collect();
        if self.before.is_empty() {
            self.before.clone_from(&now);
        }
        // Where the first of them faces: the twist about the vertical.
        self.yaw = Quat::new(now[0].w, 0.0, now[0].y, 0.0).normalize_or(self.yaw);
        let back = self.yaw.conj();
        let mut columns = Vec::with_capacity(IN * now.len());
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
        self.before = now;
        self.step(&net, &columns);
        let (said, straight) = (net.output.apply(&self.hidden), net.skip.apply(&columns));
        let said: Vec<f32> = said.iter().zip(&straight).map(|(a, b)| a + b).collect();
        for ((joint, place), told) in net.solved.iter().zip(said.chunks_exact(OUT)) {
            let base = &columns[IN * place..IN * place + 6];
            let six: [f64; 6] = std::array::from_fn(|i| f64::from(base[i]) + f64::from(told[i]));
            // What spans no frame stands where the nearest measured joint does.
            world[*joint] = rotation(six).map_or(self.before[*place], |q| self.yaw * q);
            self.confidence[*joint] = (-told[6].exp() / DOUBT).exp();
        }
        self.reach(&given, &mut world);
        for j in 0..JOINT_COUNT {
            let above = usize::try_from(PARENTS[j]).map_or(Quat::IDENTITY, |p| world[p]);
            pose[j] = (above.conj() * world[j]).normalize_or(Quat::IDENTITY);
        }
    }

    /// Moves head, hands and feet to where the given rotations have them: the torso leans until the head is above its end
    /// as it was, limbs point to where their ends were and bend as these are near and as they were solved.
    fn reach(&self, given: &[Quat; JOINT_COUNT], world: &mut [Quat; JOINT_COUNT]) {
        if self.placed == 0 {
            return;
        }
        let placed = |joint: usize| self.placed & 1 << joint != 0;
        let (wanted, mut found) = (joint_positions(given), joint_positions(world));
        if placed(UPPER_CHEST) {
            let above = |places: &[Vector; JOINT_COUNT]| minus(places[HEAD], places[SPINE]);
            let lean = Quat::from_two_vectors(above(&found), above(&wanted));
            for joint in (SPINE..=NECK).chain(ARMS) {
                world[joint] = lean * world[joint];
            }
            found = joint_positions(world);
        }
        for (side, shoulder) in ARMS.into_iter().enumerate() {
            for (upper, ahead) in [(shoulder + 1, BACK), (LEGS[side], FORWARD)] {
                let [lower, end] = [upper + 1, upper + 2];
                if !placed(lower) {
                    continue;
                }
                let lengths = [lower, end].map(|joint| length(OFFSETS[joint]));
                let bend = angle(
                    world[upper].rotate(OFFSETS[lower]),
                    world[lower].rotate(OFFSETS[end]),
                );
                let doubt = f64::from(-DOUBT * self.confidence[lower].max(f32::MIN_POSITIVE).ln());
                let way = minus(wanted[end], found[upper]);
                let far = length(way).max(1e-6);
                let end = add(found[upper], scaled(way, agreed(far, bend, lengths, doubt) / far));
                let given = given[upper].rotate(ahead);
                let bones = if upper == LEGS[side] {
                    leg(found[upper], end, given, lengths)
                } else {
                    let elbow = add(given, world[upper].rotate(ahead));
                    arm(found[upper], end, elbow, lengths, outwards(side))
                };
                if let Some(bones) = bones {
                    [world[upper], world[lower]] = bones;
                }
            }
        }
    }

    /// A step of the recurrence.
    fn step(&mut self, net: &Network, columns: &[f32]) {
        let width = net.width();
        let (given, kept) = (net.input.apply(columns), net.recurrent.apply(&self.hidden));
        for (i, h) in self.hidden.iter_mut().enumerate() {
            let reset = sigmoid(given[i] + kept[i]);
            let update = sigmoid(given[width + i] + kept[width + i]);
            // tanh x = 2 sigmoid 2x - 1
            let new = 2.0 * sigmoid(2.0 * (given[2 * width + i] + reset * kept[2 * width + i])) - 1.0;
            *h = new + update * (*h - new);
        }
    }
}

/// Where the joints of the canonical body are from its hips, of rotations in the world.
pub(crate) fn joint_positions(world: &[Quat; JOINT_COUNT]) -> [Vector; JOINT_COUNT] {
    let mut found = [[0.0; 3]; JOINT_COUNT];
    for j in 0..JOINT_COUNT {
        if let Ok(parent) = usize::try_from(PARENTS[j]) {
            found[j] = add(found[parent], world[parent].rotate(OFFSETS[j]));
        }
    }
    found
}

/// The first two columns of a rotation's matrix.
fn two_columns(q: Quat) -> [f32; 6] {
    let m = q.to_matrix();
    std::array::from_fn(|i| m[i % 3][i / 3] as f32)
}

/// The rotation whose matrix begins with two columns, made orthonormal.
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
