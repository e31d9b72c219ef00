//! The fine place: an online time warping in a band around what is believed, where the suit trembles little.
//!
//! Belief has inertia: it moves at a tempo that changes slowly. Who does the same again changes it within a step. A
//! warping without any memory of tempo keeps up with that, but jumps nowhere and is lost in noise, so belief leads it.

use super::posture::{Posture, apart};
use super::rehearsal::{MOMENT, Rehearsal};
use super::{Place, RATE};

/// Moments that the band reaches to either side of what is believed, and its width.
const REACH: i64 = 16;
const BAND: usize = 2 * REACH as usize + 1;
/// Metres of posture that a metre a second counts like.
const SPEED: f32 = 0.15;
/// It begins so close to what is believed, and again when it is farther away: frames.
const BEGIN: f64 = 6.0;
const ASTRAY: f64 = 12.5;
/// Belief below this leads nowhere.
const LEAST: f64 = 0.3;
/// The share of the fine place in what is told, in a suit that does not tremble; half of it at this, metres rms.
const SHARE: f64 = 0.7;
const QUIET: f64 = 0.002;
/// Below this tempo it counts less: who stands still is found by what moves before and after, not by posture.
const SLOW: f64 = 0.5;
/// Frames over which trembling is measured, and by how much the third difference of noise is larger, squared.
const MEASURED: f64 = 100.0;
const THIRD: f32 = 20.0;

/// The cheapest ways that lead to the moments of the band: their costs and lengths.
#[derive(Debug, Clone)]
pub(super) struct Fine {
    ways: [(f32, f32); BAND],
    /// The moment of the take that the band begins with; there is none where nothing is followed.
    band: Option<(usize, i64)>,
    /// The frame of the take that was found last.
    found: Option<f64>,
    /// Logarithm of how much the suit trembles, squared, over so many frames.
    tremble: f64,
    frames: f64,
}

const NO_WAY: (f32, f32) = (f32::INFINITY, 1.0);

impl Default for Fine {
    fn default() -> Self {
        Self {
            ways: [NO_WAY; BAND],
            band: None,
            found: None,
            tremble: 0.0,
            frames: 0.0,
        }
    }
}

impl Fine {
    /// Measures trembling by the last four postures, newest first: noise differs from frame to frame, movement hardly.
    fn measure(&mut self, last: [&Posture; 4]) {
        let third: Posture =
            std::array::from_fn(|n| last[0][n] - last[3][n] + 3.0 * (last[2][n] - last[1][n]));
        let square = apart(&third, &[0.0; 32]) / (30.0 * THIRD);
        self.frames = (self.frames + 1.0).min(MEASURED);
        self.tremble += (f64::from(square + 1e-10).ln() - self.tremble) / self.frames;
    }

    /// The place to be told, where `believed` leads; `last` are the last postures, newest first.
    pub(super) fn refine(
        &mut self,
        at: &Rehearsal,
        last: [&Posture; 4],
        now: usize,
        believed: Place,
    ) -> Place {
        self.measure(last);
        if now.is_multiple_of(MOMENT) {
            self.step(at, [last[0], last[MOMENT]], &believed);
        } else if let Some(found) = &mut self.found {
            *found += believed.tempo;
        }
        let followed = self.band.is_some_and(|(take, _)| take == believed.take);
        let Some(found) = self.found.filter(|_| followed) else {
            return believed;
        };
        let share = SHARE * (believed.tempo / SLOW).min(1.0) / (1.0 + self.tremble.exp() / (QUIET * QUIET));
        Place {
            seconds: believed.seconds + share * (found / RATE - believed.seconds),
            ..believed
        }
    }

    /// Belief leads nowhere.
    pub(super) fn lose(&mut self) {
        (self.band, self.found) = (None, None);
    }

    /// Moves on by a moment: to what is `seen` now and was seen one before.
    fn step(&mut self, at: &Rehearsal, seen: [&Posture; 2], believed: &Place) {
        if believed.trust < LEAST {
            return self.lose();
        }
        let centre = believed.seconds * RATE;
        let first = (centre / MOMENT as f64).round() as i64 - REACH;
        let same = self.band.filter(|(take, _)| *take == believed.take);
        let moved = same.map(|(_, was)| first - was);
        let before = self.ways;
        let mut before_it: Option<Posture> = None;
        let mut best = (f32::INFINITY, 0.0);
        for (i, way) in self.ways.iter_mut().enumerate() {
            *way = NO_WAY;
            let Some((moment, rehearsed)) = usize::try_from(first + i as i64)
                .ok()
                .and_then(|moment| Some((moment, at.moment(believed.take, moment)?)))
            else {
                continue;
            };
            let frame = (moment * MOMENT) as f64;
            let from = match moved {
                None if (frame - centre).abs() <= BEGIN => (0.0, 0.0),
                None => NO_WAY,
                // It stands, goes on by a moment or by two.
                Some(moved) => (0..3)
                    .filter_map(|skip| before.get(usize::try_from(i as i64 + moved - skip).ok()?))
                    .fold(NO_WAY, |a, b| if b.0 / b.1 < a.0 / a.1 { *b } else { a }),
            };
            let earlier = before_it
                .take()
                .or_else(|| at.moment(believed.take, moment.saturating_sub(1)));
            let step = [&rehearsed, earlier.as_ref().unwrap_or(&rehearsed)];
            *way = (from.0 + away(seen, step), from.1 + 1.0);
            before_it = Some(rehearsed);
            if way.0 / way.1 < best.0 {
                best = (way.0 / way.1, frame);
            }
        }
        if best.0 < f32::INFINITY && (best.1 - centre).abs() <= ASTRAY {
            (self.band, self.found) = (Some((believed.take, first)), Some(best.1));
        } else {
            self.lose();
        }
    }
}

/// How far apart two postures are, each now and a moment ago, and their velocities: metres.
fn away(a: [&Posture; 2], b: [&Posture; 2]) -> f32 {
    let moved: [Posture; 2] = [a, b].map(|[now, then]| std::array::from_fn(|n| now[n] - then[n]));
    let speed = SPEED * RATE as f32 / MOMENT as f32;
    (apart(a[0], b[0]) + speed * speed * apart(&moved[0], &moved[1])).sqrt()
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

    /// How far the place that is told in the end is from the true one, where belief is a tenth of a second late.
    fn error(shake: f32) -> f64 {
        let take: Vec<CanonicalPose> = (0..400).map(pose).collect();
        let rehearsal = Rehearsal::new([&take]).expect("a take");
        let (mut viewer, mut fine) = (Viewer::default(), Fine::default());
        let mut last = [[0.0; 32]; 4];
        let mut error = 0.0;
        for (now, pose) in take.iter().take(200).enumerate() {
            last.rotate_right(1);
            last[0] = viewer.push(pose);
            let sign = if now.is_multiple_of(2) { shake } else { -shake };
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
