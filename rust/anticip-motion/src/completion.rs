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
use crate::inverse::{BACK, FORWARD, Vector, add, agreed, angle, arm, leg, length, minus, outwards, scaled};

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
        let (wanted, mut found) = (places(given), places(world));
        if placed(UPPER_CHEST) {
            let above = |places: &[Vector; JOINT_COUNT]| minus(places[HEAD], places[SPINE]);
            let lean = Quat::from_two_vectors(above(&found), above(&wanted));
            for joint in (SPINE..=NECK).chain(ARMS) {
                world[joint] = lean * world[joint];
            }
            found = places(world);
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
fn places(world: &[Quat; JOINT_COUNT]) -> [Vector; JOINT_COUNT] {
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
    let along = a[0] * bx + a[1] * by + a[2] * bz;
    let b = unit([bx - along * a[0], by - along * a[1], bz - along * a[2]])?;
    let c = [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ];
    Quat::from_matrix(std::array::from_fn(|i| [a[i], b[i], c[i]])).try_normalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(joints: &[usize]) -> [bool; JOINT_COUNT] {
        std::array::from_fn(|j| joints.contains(&j))
    }

    fn frame(t: f64) -> [Quat; JOINT_COUNT] {
        std::array::from_fn(|j| Quat::from_axis_angle([0.2, 1.0, 0.1 * j as f64], 0.7 * (t + j as f64).sin()))
    }

    /// Rotations in the world of a pose whose unmeasured joints are at rest.
    fn world(pose: &[Quat; JOINT_COUNT]) -> [Quat; JOINT_COUNT] {
        let mut out = *pose;
        for j in 1..JOINT_COUNT {
            out[j] = out[PARENTS[j] as usize] * pose[j];
        }
        out
    }

    #[test]
    fn the_package_has_its_weights() {
        assert!(trained().is_some());
        assert!(Completion::new(&mask(&[13])).is_some());
    }

    #[test]
    fn a_body_that_has_enough_stays_what_it_is() {
        assert!(Completion::new(&[true; JOINT_COUNT]).is_none());
        assert!(Completion::new(&[false; JOINT_COUNT]).is_none());
        assert!(Completion::new(&mask(&[HIPS])).is_none());
        assert!(Completion::new(&std::array::from_fn(|j| j <= FEW)).is_none());
    }

    #[test]
    fn measured_joints_stay_where_they_were_measured_and_the_others_move() {
        for joints in [&[0, 5, 9, 13, 16, 20][..], &[5, 9, 13], &[13]] {
            let there = mask(joints);
            let mut completion = Completion::new(&there).unwrap();
            let mut moved = 0.0;
            for n in 0..100 {
                let mut sent = frame(f64::from(n) * 0.05);
                for j in 0..JOINT_COUNT {
                    if !there[j] {
                        sent[j] = Quat::IDENTITY;
                    }
                }
                let wanted = world(&sent);
                let mut made = sent;
                completion.push(&mut made);
                let found = world(&made);
                for j in joints {
                    assert!(found[*j].angle_to(wanted[*j]) < 1e-6, "joint {j}");
                    assert_eq!(completion.confidence()[*j], 1.0);
                }
                moved += made[7].angle_to(Quat::IDENTITY);
                assert!(made.iter().all(|q| q.to_array().iter().all(|v| v.is_finite())));
                assert!(completion.confidence().iter().all(|c| (0.0..=1.0).contains(c)));
            }
            assert!(moved > 1.0, "the upper arm is not at rest");
        }
    }

    #[test]
    fn placed_joints_are_solved_and_the_ends_stay_where_they_were() {
        let measured = mask(&[0, 5, 9, 13, 16, 20]);
        let placed = [1, 2, 3, 4, 7, 8, 11, 12, 14, 15, 18, 19]
            .iter()
            .fold(0, |bits, j| bits | 1 << j);
        let mut completion = Completion::placed(&measured, placed).unwrap();
        let mut moved = 0.0_f64;
        for n in 0..60 {
            // Arms that hang, elbows bent, from a torso that leans, and a knee that is lifted.
            let mut sent = [Quat::IDENTITY; JOINT_COUNT];
            let lean = 0.4 * (f64::from(n) * 0.1).sin();
            sent[SPINE] = Quat::from_axis_angle([1.0, 0.0, 0.0], lean);
            for (upper, side) in [(7, -1.0), (11, 1.0)] {
                sent[upper] = Quat::from_axis_angle([0.0, 0.0, 1.0], side * 1.2);
                sent[upper + 1] = Quat::from_axis_angle([0.0, 1.0, 0.0], side * 1.3);
            }
            sent[14] = Quat::from_axis_angle([1.0, 0.0, 0.0], -1.2);
            sent[15] = Quat::from_axis_angle([1.0, 0.0, 0.0], 1.4);
            let (wanted, mut made) = (places(&world(&sent)), sent);
            completion.push(&mut made);
            let (turned, found) = (world(&made), places(&world(&made)));
            for end in [9, 13, 16, 20] {
                let [seen, made] = [&wanted, &found].map(|p| minus(p[end], found[end - 2]));
                assert!(angle(seen, made) < 1e-6, "{n} {end}");
                let off = (length(seen) - length(made)).abs();
                assert!(off < 0.1, "{n} {end} {off}");
            }
            let above = |places: &[Vector; JOINT_COUNT]| minus(places[HEAD], places[SPINE]);
            let off = Quat::from_two_vectors(above(&found), above(&wanted));
            assert!(off.angle_to(Quat::IDENTITY) < 0.03, "{n}");
            assert!(turned[HEAD].angle_to(world(&sent)[HEAD]) < 1e-6);
            moved = moved.max(made[2].angle_to(sent[2]));
        }
        assert!(moved > 0.02, "the chest is solved anew");
        assert!(
            Completion::placed(&mask(&[1, 2]), 0b110).is_none(),
            "nothing else is measured"
        );
    }

    /// Six joints that are turned alike however the torso leans, and elbows that are turned about the arm by `elbow`.
    fn placed_body(lean: f64, elbow: f64) -> [Quat; JOINT_COUNT] {
        let mut sent = [Quat::IDENTITY; JOINT_COUNT];
        sent[SPINE] = Quat::from_axis_angle([1.0, 0.0, 0.0], lean);
        sent[HEAD] = sent[SPINE].conj();
        for upper in [7, 11] {
            // Spread arms, whose ends stay where they are.
            let about = Quat::from_axis_angle([1.0, 0.0, 0.0], elbow);
            let bent = Quat::from_axis_angle([0.0, 1.0, 0.0], if upper == 7 { 0.8 } else { -0.8 });
            sent[upper] = sent[SPINE].conj() * about * bent;
            sent[upper + 1] = bent.conj() * bent.conj();
            sent[upper + 2] = bent * about.conj();
        }
        sent
    }

    fn completed(mut sent: [Quat; JOINT_COUNT]) -> [Quat; JOINT_COUNT] {
        let placed = [1, 2, 3, 4, 7, 8, 11, 12].iter().fold(0, |bits, j| bits | 1 << j);
        let mut completion = Completion::placed(&mask(&[0, 5, 9, 13, 16, 20]), placed).unwrap();
        completion.push(&mut sent);
        sent
    }

    #[test]
    fn shoulders_go_with_the_torso() {
        let [upright, bowed] = [0.0, 0.6].map(|lean| completed(placed_body(lean, 0.0)));
        assert!(world(&upright)[UPPER_CHEST].angle_to(world(&bowed)[UPPER_CHEST]) > 0.5);
        for shoulder in ARMS {
            assert!(upright[shoulder].angle_to(bowed[shoulder]) < 1e-6);
        }
    }

    #[test]
    fn elbows_are_on_the_side_where_they_were_placed() {
        let [back, down] = [0.0, -1.4].map(|elbow| places(&world(&completed(placed_body(0.0, elbow)))));
        for elbow in [8, 12] {
            assert!(back[elbow][1] > down[elbow][1] + 0.03, "{back:?} {down:?}");
        }
    }

    #[test]
    fn a_reset_and_a_copy_say_the_same_again() {
        let run = |completion: &mut Completion| {
            let mut out = Vec::new();
            for n in 0..20 {
                let mut pose = frame(f64::from(n) * 0.1);
                completion.push(&mut pose);
                out.push(pose.map(Quat::to_array));
            }
            out
        };
        let mut completion = Completion::new(&mask(&[0, 5, 9])).unwrap();
        let first = run(&mut completion);
        let mut copy = completion.clone();
        assert_eq!(run(&mut copy), run(&mut completion));
        completion.reset();
        assert_eq!(run(&mut completion), first);
    }

    #[test]
    fn turning_the_whole_body_about_the_vertical_turns_it_and_no_more() {
        let turn = Quat::from_axis_angle([0.0, 1.0, 0.0], 2.0);
        let mut pair = [0, 1].map(|_| Completion::new(&mask(&[0, 5, 9, 13])).unwrap());
        for n in 0..50 {
            let mut plain = frame(f64::from(n) * 0.05);
            let mut turned = plain;
            turned[0] = turn * turned[0];
            pair[0].push(&mut plain);
            pair[1].push(&mut turned);
            assert!((turn * plain[0]).angle_to(turned[0]) < 1e-4);
            for j in 1..JOINT_COUNT {
                assert!(plain[j].angle_to(turned[j]) < 1e-3, "joint {j}");
            }
        }
    }
}
