//! Fine place: an online time warping in a band around the believed place, used where the suit has little
//! noise.
//!
//! Belief has inertia, because its tempo changes slowly; a performer may change tempo within a step. A
//! warping without memory of tempo keeps up with that, but cannot follow jumps and gets lost in noise, so
//! belief leads it.

use super::posture::{Posture, distance_squared};
use super::rehearsal::{MOMENT, Rehearsal};
use super::{Place, RATE};

/// Moments that the band extends to either side of the believed place.
const REACH: i64 = 16;
/// Width of the band in moments.
const BAND: usize = 2 * REACH as usize + 1;
/// Seconds by which velocities are multiplied to compare them with positions.
const VELOCITY_S: f32 = 0.15;
/// Maximum distance from the believed place at which the warping starts, in frames.
const START_FRAMES: f64 = 6.0;
/// Distance at which it is restarted, in frames.
const MAX_DISTANCE_FRAMES: f64 = 12.5;
/// Minimum trust for belief to lead the warping.
const MIN_TRUST: f64 = 0.3;
/// Share of the fine place in the result for a suit without noise.
const SHARE: f64 = 0.7;
/// Noise at which that share halves, metres rms.
const HALF_SHARE_NOISE: f64 = 0.002;
/// Below this tempo the share falls in proportion: standing still is located by the movement around it, not
/// by posture.
const FULL_SHARE_TEMPO: f64 = 0.5;
/// Frames over which noise is averaged.
const NOISE_FRAMES: f64 = 100.0;
/// Squared noise below which none is measured, and that of a new suit, m^2.
const MIN_NOISE: f32 = 1e-10;
/// Frames after which the noise is known.
const KNOWN_FRAMES: f64 = 20.0;
/// Variance of the third difference of white noise relative to the noise.
const THIRD_DIFFERENCE_GAIN: f32 = 20.0;

/// Cost and length of the cheapest path to each moment of the band.
#[derive(Debug, Clone)]
pub(super) struct Fine {
    paths: [(f32, f32); BAND],
    /// Take and first moment of the band; `None` while nothing is followed.
    band: Option<(usize, i64)>,
    /// The frame of the take that was found last.
    found: Option<f64>,
    /// Mean logarithm of the squared noise.
    log_noise: f64,
    /// Number of frames in that mean, up to [`NOISE_FRAMES`].
    frames: f64,
}

const NO_PATH: (f32, f32) = (f32::INFINITY, 1.0);

impl Default for Fine {
    fn default() -> Self {
        Self {
            paths: [NO_PATH; BAND],
            band: None,
            found: None,
            log_noise: f64::from(MIN_NOISE).ln(),
            frames: 0.0,
        }
    }
}

impl Fine {
    /// Measures noise from the last four postures, newest first; movement hardly contributes to a third
    /// difference.
    fn measure_noise(&mut self, last: [&Posture; 4]) {
        let third: Posture =
            std::array::from_fn(|n| last[0][n] - last[3][n] + 3.0 * (last[2][n] - last[1][n]));
        let square = distance_squared(&third, &[0.0; 32]) / (30.0 * THIRD_DIFFERENCE_GAIN);
        self.frames = (self.frames + 1.0).min(NOISE_FRAMES);
        self.log_noise += (f64::from(square + MIN_NOISE).ln() - self.log_noise) / self.frames;
    }

    /// Variance of a coordinate from frame to frame, m^2: the jitter of the suit. 0 while it is not known.
    pub(super) fn noise(&self) -> f32 {
        if self.frames < KNOWN_FRAMES {
            return 0.0;
        }
        self.log_noise.exp() as f32
    }

    /// The refined place; `believed` leads, `last` are the last four postures, newest first.
    pub(super) fn refine(
        &mut self,
        at: &Rehearsal,
        last: [&Posture; 4],
        now: usize,
        believed: Place,
    ) -> Place {
        // Before, the first posture stands for missing ones.
        if now >= 3 {
            self.measure_noise(last);
        }
        if now.is_multiple_of(MOMENT) {
            self.step(at, [last[0], last[MOMENT]], &believed);
        } else if let Some(found) = &mut self.found {
            *found += believed.tempo;
        }
        let followed = self.band.is_some_and(|(take, _)| take == believed.take);
        let Some(found) = self.found.filter(|_| followed) else {
            return believed;
        };
        let share = SHARE * (believed.tempo / FULL_SHARE_TEMPO).min(1.0)
            / (1.0 + self.log_noise.exp() / (HALF_SHARE_NOISE * HALF_SHARE_NOISE));
        Place {
            seconds: believed.seconds + share * (found / RATE - believed.seconds),
            ..believed
        }
    }

    /// Stops, because belief leads nowhere.
    pub(super) fn stop(&mut self) {
        (self.band, self.found) = (None, None);
    }

    /// Advances by a moment; `observed` are the postures now and one moment before.
    fn step(&mut self, at: &Rehearsal, observed: [&Posture; 2], believed: &Place) {
        if believed.trust < MIN_TRUST {
            return self.stop();
        }
        let centre = believed.seconds * RATE;
        let first = (centre / MOMENT as f64).round() as i64 - REACH;
        let current_band = self.band.filter(|(take, _)| *take == believed.take);
        let shift = current_band.map(|(_, old_first)| first - old_first);
        let old_paths = self.paths;
        let mut previous: Option<Posture> = None;
        let mut best = (f32::INFINITY, 0.0);
        for (i, path) in self.paths.iter_mut().enumerate() {
            *path = NO_PATH;
            let Some((moment, rehearsed)) = usize::try_from(first + i as i64)
                .ok()
                .and_then(|moment| Some((moment, at.moment(believed.take, moment)?)))
            else {
                continue;
            };
            let frame = (moment * MOMENT) as f64;
            let from = match shift {
                None if (frame - centre).abs() <= START_FRAMES => (0.0, 0.0),
                None => NO_PATH,
                // Paths stay at a moment, or go on by one or two.
                Some(shift) => (0..3)
                    .filter_map(|skip| old_paths.get(usize::try_from(i as i64 + shift - skip).ok()?))
                    .fold(NO_PATH, |a, b| if b.0 / b.1 < a.0 / a.1 { *b } else { a }),
            };
            let earlier = previous
                .take()
                .or_else(|| at.moment(believed.take, moment.saturating_sub(1)));
            let step = [&rehearsed, earlier.as_ref().unwrap_or(&rehearsed)];
            *path = (from.0 + distance(observed, step), from.1 + 1.0);
            previous = Some(rehearsed);
            if path.0 / path.1 < best.0 {
                best = (path.0 / path.1, frame);
            }
        }
        if best.0 < f32::INFINITY && (best.1 - centre).abs() <= MAX_DISTANCE_FRAMES {
            (self.band, self.found) = (Some((believed.take, first)), Some(best.1));
        } else {
            self.stop();
        }
    }
}

/// Distance in metres of two pairs of postures (now and a moment before), in position and velocity.
fn distance(a: [&Posture; 2], b: [&Posture; 2]) -> f32 {
    let changes: [Posture; 2] = [a, b].map(|[now, then]| std::array::from_fn(|n| now[n] - then[n]));
    let speed = VELOCITY_S * RATE as f32 / MOMENT as f32;
    (distance_squared(a[0], b[0]) + speed * speed * distance_squared(&changes[0], &changes[1])).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::posture::Viewer;
    use super::*;
    use anticip_motion::CanonicalPose;

    fn pose(frame: usize) -> CanonicalPose {
        let t = frame as f32 / RATE as f32;
        let half = 0.4 * (0.9 * t).sin() + 0.3 * (1.7 * t + 1.0).sin();
        [[half.cos(), half.sin(), 0.0, 0.0]; 22]
    }

    /// Final error of the refined place in seconds, where belief is 0.1 s late.
    fn error(noise: f32) -> f64 {
        let take: Vec<CanonicalPose> = (0..400).map(pose).collect();
        let rehearsal = Rehearsal::new([&take]).expect("a take");
        let (mut viewer, mut fine) = (Viewer::default(), Fine::default());
        let mut last = [[0.0; 32]; 4];
        let mut error = 0.0;
        for (now, pose) in take.iter().take(200).enumerate() {
            last.rotate_right(1);
            last[0] = viewer.push(pose);
            let sign = if now.is_multiple_of(2) { noise } else { -noise };
            last[0][..30].iter_mut().for_each(|v| *v += sign);
            let believed = Place {
                take: 0,
                seconds: now as f64 / RATE - 0.1,
                tempo: 1.0,
                trust: 1.0,
            };
            let found = fine.refine(&rehearsal, last.each_ref(), now, believed);
            error = now as f64 / RATE - found.seconds;
        }
        error
    }

    #[test]
    fn a_late_belief_is_set_right_unless_the_suit_trembles() {
        assert!((error(0.0) - 0.03).abs() < 0.015, "{}", error(0.0));
        assert!((error(0.02) - 0.1).abs() < 0.01, "{}", error(0.02));
    }
}
