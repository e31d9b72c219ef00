//! The body's measures averaged over the last frames, in the form that sound parameters are made of.
//!
//! A parameter is a nonlinear function of ratios of means: of energies, squared jerks, squared speeds. The terms of a
//! mean are computed once, when their frame arrives, and stored in a ring; the means are summed again on every frame,
//! so that rounding errors do not accumulate.

use anticip_motion::features::RATE;
use anticip_motion::kinematics::MEASURE_COUNT;

const ENDS: usize = 5;
const VELOCITIES: usize = 3 * ENDS;

/// Values of a frame that are kept: the velocities of hands, toes and head (all x, all y, all z) and the measures.
pub(crate) const CARRIED_COUNT: usize = VELOCITIES + MEASURE_COUNT;

/// Lengths in frames of the windows that are averaged: 60, 120, 240 and 500 ms.
pub(crate) const WINDOWS: [usize; 4] = [3, 6, 12, 25];

/// Number of quantities of each window.
const QUANTITIES: usize = 6;
/// Number of outputs of [`SmoothedMeasures::run`].
pub(crate) const SMOOTHED_COUNT: usize = QUANTITIES * WINDOWS.len();

/// Second derivative of the velocity from ten frames, oldest first: five averages of neighbours, and two differences
/// over two frames.
const JERK_FILTER: [f64; 10] = [1.0, 5.0, 8.0, 0.0, -14.0, -14.0, 0.0, 8.0, 5.0, 1.0];
/// Converts the filter's output to 1/s^2: squared rate over the gain of averages and differences.
const JERK_GAIN: f64 = RATE * RATE / (32.0 * 4.0);

/// Factors of squared jerk (of a reference swing), squared speed, energy, number of ends, speed.
const SCALE: [f64; 5] = [
    1.0 / (16.0 * PI2 * PI2 * REFERENCE_HZ2 * REFERENCE_HZ2),
    1.0 / 0.64,
    1.0,
    1.0 / 3.6,
    1.0,
];
const PI2: f64 = std::f64::consts::PI * std::f64::consts::PI;
const REFERENCE_HZ2: f64 = 1.8 * 1.8;
/// Added to the same quantities before their logarithms.
const FLOOR: [f64; 5] = [1.0, 4e-4, 1e-6, 0.3, 0.1];
/// Factors of their logarithms.
const POWER: [f64; 5] = [1.0, 0.65, 0.75, 4.0, 2.0];

/// The terms of a frame that are averaged.
#[derive(Debug, Clone, Copy)]
struct Frame {
    velocity: [f64; VELOCITIES],
    jerk2: f64,
    ends2: [f64; ENDS],
    hands2: f64,
    body: f64,
    moment: f64,
}

/// A frame before the stream: all values are zero, including the logarithm of the energy.
const BEFORE: Frame = Frame {
    velocity: [0.0; VELOCITIES],
    jerk2: 0.0,
    ends2: [0.0; ENDS],
    hands2: 0.0,
    body: 1.0,
    moment: 0.0,
};

/// The smoothed measures of a stream.
#[derive(Debug, Clone)]
pub(crate) struct SmoothedMeasures {
    frames: Vec<Frame>,
    newest: usize,
    /// Number of frames in the ring that have a jerk.
    jerk_frames: usize,
}

impl SmoothedMeasures {
    /// Keeps `taps` frames. Windows are cut to them, those of the jerk to the frames that have one; with fewer than
    /// ten there is no jerk.
    pub(crate) fn new(taps: usize) -> Self {
        Self {
            frames: vec![BEFORE; taps.max(1)],
            newest: 0,
            jerk_frames: (taps + 1).saturating_sub(JERK_FILTER.len()),
        }
    }

    /// Starts a new stream.
    pub(crate) fn reset(&mut self) {
        self.frames.fill(BEFORE);
    }

    /// Computes, with this frame as the newest, for every window the logarithms of mean squared jerk of the ends,
    /// squared speed of the faster hand, energy of the body, how many ends share the movement and speed of the ends;
    /// and the side. Until [`Self::advance`] the frame can be replaced by another.
    pub(crate) fn run(&mut self, carried: &[f32; CARRIED_COUNT]) -> [f32; SMOOTHED_COUNT] {
        self.frames[self.newest] = self.frame(carried);
        let mut out = [0.0; SMOOTHED_COUNT];
        let mut rows = out.as_chunks_mut::<QUANTITIES>().0.iter_mut();
        let mut lengths = WINDOWS.iter().map(|&n| n.min(self.frames.len())).peekable();
        let (mut jerk2, mut ends2, mut hands2, mut body, mut moment) = (0.0, [0.0; ENDS], 0.0, 0.0, 0.0);
        for (age, frame) in self.newest_first().enumerate() {
            if age < self.jerk_frames {
                jerk2 += frame.jerk2;
            }
            ends2.iter_mut().zip(frame.ends2).for_each(|(sum, v)| *sum += v);
            hands2 += frame.hands2;
            body += frame.body;
            moment += frame.moment;
            while lengths.next_if_eq(&(age + 1)).is_some() {
                let count = (age + 1) as f64;
                let jerks = (age + 1).min(self.jerk_frames.max(1)) as f64;
                let Some(row) = rows.next() else { break };
                *row = quantities(
                    jerk2 / jerks / ENDS as f64,
                    ends2.map(|v| v / count),
                    hands2 / count,
                    body / count,
                    moment / count,
                );
            }
        }
        out
    }

    /// Commits the newest frame to the past.
    pub(crate) fn advance(&mut self) {
        self.newest = (self.newest + 1) % self.frames.len();
    }

    /// The frames from the newest to the oldest.
    fn newest_first(&self) -> impl Iterator<Item = &Frame> {
        let (early, late) = self.frames.split_at(self.newest + 1);
        early.iter().rev().chain(late.iter().rev())
    }

    fn frame(&self, carried: &[f32; CARRIED_COUNT]) -> Frame {
        let velocity: [f64; VELOCITIES] = std::array::from_fn(|i| f64::from(carried[i]));
        let measure = |i: usize| f64::from(carried[VELOCITIES + i]);
        let mut jerk: [f64; VELOCITIES] = velocity.map(|v| v * JERK_FILTER[JERK_FILTER.len() - 1]);
        if self.jerk_frames > 0 {
            for (weight, frame) in JERK_FILTER.iter().rev().zip(self.newest_first()).skip(1) {
                jerk.iter_mut()
                    .zip(frame.velocity)
                    .for_each(|(sum, v)| *sum += weight * v);
            }
        }
        let ends2 = std::array::from_fn(|e| (0..3).map(|axis| velocity[axis * ENDS + e].powi(2)).sum());
        Frame {
            velocity,
            jerk2: if self.jerk_frames > 0 {
                jerk.iter().map(|b| (b * JERK_GAIN).powi(2)).sum()
            } else {
                0.0
            },
            ends2,
            hands2: ends2[0].max(ends2[1]),
            body: (measure(1) / 0.75).exp(),
            moment: measure(5) * (ends2.iter().sum::<f64>() + 0.1),
        }
    }
}

/// The quantities of a window, from its means.
fn quantities(jerk2: f64, ends2: [f64; ENDS], hands2: f64, body: f64, moment: f64) -> [f32; QUANTITIES] {
    let total: f64 = ends2.iter().sum();
    let speeds: f64 = ends2.iter().map(|v| (v + 1e-6).sqrt()).sum();
    let sharing = speeds * speeds / (total + 0.0225);
    let speed = (total / ENDS as f64 + 1e-6).sqrt();
    let positive = [jerk2, hands2, body, sharing, speed];
    let mut out = [(moment / (total + 0.1)) as f32; QUANTITIES];
    for (i, value) in positive.into_iter().enumerate() {
        out[i] = (((value + FLOOR[i]) * SCALE[i]).ln() * POWER[i]) as f32;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, from the whole window.
    fn slow(window: &[[f32; CARRIED_COUNT]]) -> Vec<f32> {
        let taps = window.len();
        let v = |t: usize, i: usize| f64::from(window[t][i]);
        let speed2 = |t: usize, e: usize| (0..3).map(|a| v(t, a * ENDS + e).powi(2)).sum::<f64>();
        let mut out = Vec::new();
        for window_length in WINDOWS {
            let length = window_length.min(taps);
            let mean = |f: &dyn Fn(usize) -> f64| (taps - length..taps).map(f).sum::<f64>() / length as f64;
            let rows = (taps + 1).saturating_sub(10);
            let jerks = window_length.min(rows);
            let mut jerk2 = 0.0;
            for row in rows - jerks..rows {
                for i in 0..VELOCITIES {
                    let jerk: f64 = (0..10).map(|k| JERK_FILTER[k] * v(row + k, i)).sum();
                    jerk2 += (jerk * JERK_GAIN).powi(2) / jerks as f64 / ENDS as f64;
                }
            }
            let ends2 = std::array::from_fn(|e| mean(&|t| speed2(t, e)));
            let total = |t: usize| (0..ENDS).map(|e| speed2(t, e)).sum::<f64>();
            out.extend(quantities(
                jerk2,
                ends2,
                mean(&|t| speed2(t, 0).max(speed2(t, 1))),
                mean(&|t| (v(t, VELOCITIES + 1) / 0.75).exp()),
                mean(&|t| v(t, VELOCITIES + 5) * (total(t) + 0.1)),
            ));
        }
        out
    }

    proptest! {
        #[test]
        fn the_ring_equals_the_window(
            taps in 2_usize..40,
            stream in prop::collection::vec(prop::array::uniform21(-10.0_f32..10.0), 1..90),
            reset in 0_usize..90,
        ) {
            let mut measures = SmoothedMeasures::new(taps);
            let mut past = vec![[0.0; CARRIED_COUNT]; taps];
            for (t, frame) in stream.iter().enumerate() {
                if t == reset {
                    measures.reset();
                    past = vec![[0.0; CARRIED_COUNT]; taps];
                }
                measures.run(&[1.0; CARRIED_COUNT]); // without `advance` the state does not change
                past.push(*frame);
                let wanted = slow(&past[past.len() - taps..]);
                for (got, wanted) in measures.run(frame).iter().zip(wanted) {
                    prop_assert!((got - wanted).abs() <= 1e-6 * wanted.abs().max(1.0), "{t}: {got} {wanted}");
                }
                measures.advance();
            }
        }
    }
}
