//! Measures of teacher and causal twin, and their conversion to parameters between 0 and 1.
//!
//! Both perform the same steps and differ only in their filters and differences:
//!
//! rotations -> joint positions -> smoothed -> velocity, acceleration, jerk -> measures -> smoothed -> squashed
//!
//! Every constant is fixed and was chosen from quantiles over the training subjects alone; `docs/teacher.md` has the
//! formulas.

use crate::canonical::JOINT_COUNT;
use crate::kinematics::{ENDS, HANDS, MASSES, higher_hand, reach};

use super::PARAMETER_COUNT;
use super::body::{PULSE_SIZE, Vector};

/// -3 dB point of six parameters, Hz.
pub const FAST_HZ: f64 = 3.0;
/// -3 dB point of density and pulse, Hz.
pub const SLOW_HZ: f64 = 1.0;
/// -3 dB point of the positions before they are differentiated, Hz; it keeps mocap noise out of the jerk.
pub const MOTION_HZ: f64 = 6.6;

/// Number of measures smoothed at [`FAST_HZ`].
pub const FAST: usize = 8;
/// Number of measures smoothed at [`SLOW_HZ`]: the squared speeds of the ends.
pub const SLOW: usize = ENDS.len();
/// Number of all measures.
pub const MEASURES: usize = FAST + SLOW;

/// Number of lags at which repetition is measured.
pub const LAGS: usize = 23;
/// Longest of them, frames.
pub const LONGEST_LAG: usize = 60;

/// Constants added where a ratio would otherwise measure the noise of a still body: speeds in m/s, energies in
/// m^2/s^2.
const REST_SPEED: f64 = 0.1;
const DENSITY_REST_SPEED: f64 = 0.15;
const PAN_REST_ENERGY: f64 = 0.1;
const PULSE_REST_ENERGY: f64 = 0.09;

/// The lags in frames: 0.32 to 1.2 s, that is 50 to 188 beats a minute.
pub fn lags() -> impl Iterator<Item = usize> {
    (16..=LONGEST_LAG).step_by(2)
}

/// Measures of one frame before smoothing: height of the higher hand (m), twice the kinetic energy per kilogram,
/// squared speed of the faster hand, mean squared jerk and mean squared speed of the five ends, extension (m), lateral
/// moment of the ends' squared speed, its sum; then the squared speeds of the five ends.
pub fn raw_measures(
    places: &[Vector],
    lateral: &[f64; ENDS.len()],
    velocity: &[Vector],
    jerk: &[Vector; ENDS.len()],
) -> [f64; MEASURES] {
    let speed2: [f64; JOINT_COUNT] = std::array::from_fn(|joint| square(&velocity[joint]));
    let mass: f64 = MASSES.iter().sum();
    let kinetic = speed2.iter().zip(&MASSES).map(|(s, m)| s * (m / mass)).sum();
    let ends = ENDS.map(|joint| speed2[joint]);
    let energy: f64 = ends.iter().sum();
    let count = ENDS.len() as f64;
    let mut out = [0.0; MEASURES];
    out[..FAST].copy_from_slice(&[
        higher_hand(HANDS.map(|joint| places[joint][1])),
        kinetic,
        speed2[HANDS[0]].max(speed2[HANDS[1]]),
        jerk.iter().map(|j| square(j)).sum::<f64>() / count,
        energy / count,
        reach(places),
        ends.iter().zip(lateral).map(|(s, x)| s * x).sum(),
        energy,
    ]);
    out[FAST..].copy_from_slice(&ends);
    out
}

/// Velocities of the pulse joints, then the sum of their squares, which is needed for every lag.
pub type PulseRow = [f64; PULSE_SIZE + 1];

/// Builds the row of these velocities.
pub fn pulse_row(velocity: &[f64]) -> PulseRow {
    let mut row = [0.0; PULSE_SIZE + 1];
    row[..PULSE_SIZE].copy_from_slice(velocity);
    row[PULSE_SIZE] = square(velocity);
    row
}

/// How well a movement repeats after a lag: the product of two velocities, and their mean energy.
#[inline(always)]
pub fn repetition(now: &PulseRow, then: &PulseRow) -> [f64; 2] {
    let pairs = now[..PULSE_SIZE].iter().zip(&then[..PULSE_SIZE]);
    let product = pairs.map(|(a, b)| a * b).sum();
    [product, 0.5 * (now[PULSE_SIZE] + then[PULSE_SIZE])]
}

/// Ratio of the smoothed product and energy; `weight` is the share of the smoother that had both.
pub fn periodicity([product, energy]: [f64; 2], weight: f64) -> f64 {
    product / (energy + PULSE_REST_ENERGY * weight)
}

/// Converts smoothed measures and the greatest periodicity to parameters.
pub fn squash(measures: &[f64; MEASURES], periodicity: f64) -> [f64; PARAMETER_COUNT] {
    let [
        height,
        kinetic,
        hand2,
        jerk2,
        speed2,
        reach,
        moment,
        energy,
        limbs @ ..,
    ] = *measures;
    let root = |x: f64| x.max(0.0).sqrt();
    let speed = root(speed2);
    // sqrt(jerk / speed) is a frequency: that of a sinusoid with this speed and jerk.
    let tremor = (root(jerk2) / (speed + REST_SPEED)).sqrt() / std::f64::consts::TAU;
    let limbs = limbs.map(root);
    let (total, squares) = (limbs.iter().sum::<f64>(), square(&limbs));
    // Participation ratio: how many of the five ends share the movement.
    let participation = total * total / (squares + DENSITY_REST_SPEED * DENSITY_REST_SPEED);
    let side = -moment / (energy.max(0.0) + PAN_REST_ENERGY);
    [
        logistic(height, 0.12, 0.18),
        hill(root(kinetic), 0.35, 1.5),
        hill(root(hand2), 0.8, 1.3),
        hill(tremor, 1.8, 4.0),
        hill(participation, 3.3, 4.0),
        logistic(reach, 0.80, 0.05),
        logistic(side, 0.0, 0.075),
        periodicity.clamp(0.0, 1.0),
    ]
}

/// x^p / (x^p + half^p): 0 at rest, 1/2 at `half`, approaching 1 beyond; for x >= 0.
fn hill(x: f64, half: f64, power: f64) -> f64 {
    let ratio = (x.max(0.0) / half).powf(power);
    ratio / (1.0 + ratio)
}

fn logistic(x: f64, centre: f64, scale: f64) -> f64 {
    0.5 * (1.0 + ((x - centre) / (2.0 * scale)).tanh())
}

fn square(v: &[f64]) -> f64 {
    v.iter().map(|x| x * x).sum()
}
