//! Where the performer is in what was rehearsed: take, seconds, tempo against the rehearsal, and how sure that is.
//!
//! A forward filter (a hidden Markov model) over place, on the rehearsal's own 50 Hz grid, and tempo, in steps of a
//! fifth. Only stretches that are believed in are carried on. Ten times a second a coarse time warping over the
//! whole rehearsal names two places where the performer may be as well; the last frames are then replayed towards
//! them, and what was said of these frames decides how much belief a place gets. So pauses, skips and repeated parts
//! are found, and an hour of rehearsal costs little more than a minute.
//!
//! What is seen of one frame to the next is by no means independent, and the same movement done again differs for
//! whole seconds. Within a stretch each frame counts in full, which is sharp; between stretches only a part of it
//! does, so that nobody is carried off to what merely looks more alike for a moment. How large that part is, and how
//! much a performer may differ, is learned while following ([`performer`]): who does exactly what was rehearsed
//! and then does not has jumped; who never does it exactly has not.

mod belief;
mod fine;
mod performer;
mod posture;
mod rehearsal;
mod search;
mod spotter;

use std::cmp::Reverse;
use std::sync::Arc;

use anticip_motion::CanonicalPose;
use anticip_motion::features::RATE;

use crate::MemoryError;
use belief::{ANY_TEMPO, LEAVE, Motion, Scratch, Seen, Stretch, TEMPI, mass};
use fine::Fine;
use performer::Performer;
pub use posture::KeptPose;
use posture::{HALF, Posture, Viewer, middle, velocity};
use rehearsal::Rehearsal;
use search::{EVERY, Search};
pub use spotter::{GESTURE_FRAMES, Spotted, Spotter};

/// Frames that a new place is tried on, and those that are kept for it.
const REPLAYED: usize = 30;
const KEPT: usize = 64;
/// A run begins in the first half second of a take, with this chance.
const FROM_THE_TOP: f32 = 0.9;
const TOP: usize = 25;
/// Chances a frame that who was followed, or was nowhere, turns up somewhere else.
const JUMP: f32 = 3e-5;
const ENTER: f32 = 0.002;
/// A belief smaller than another by this logarithm is as good as none.
const FORGOTTEN: f64 = 30.0;
/// Frames over which that is spread at least: two minutes. In a short rehearsal a jump is no likelier.
const ELSEWHERE: usize = 6000;
/// The performer is learned from where at least so much is believed.
const LEARNED: f32 = 0.5;
/// Stretches that are followed: while the run is young, and later; and the belief that one needs.
const AT_FIRST: usize = 32;
const AT_MOST: usize = 10;
const FAINT: f32 = 1e-5;
const NEW: f32 = 1e-4;
/// Frames beside a stretch that are as good as followed, if that much is believed in it.
const MARGIN: usize = 10;
const FOLLOWED: f32 = 1e-3;
/// Place and tempo are means over so many frames around the median; trust is the belief within the half second.
const CORE: usize = 4;
const AROUND: usize = 25;
const NOWHERE: f32 = 0.01;
/// After a gap the performer has gone on with a chance that falls by e in so many seconds; begun anew after that many.
const GOES_ON: f64 = 20.0;
const ANEW: f64 = 60.0;

/// Where the performer is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Index of the take.
    pub take: usize,
    /// Seconds from the take's first frame.
    pub seconds: f64,
    /// Speed against the rehearsal's: 1 as rehearsed, 0 standing still.
    pub tempo: f64,
    /// 0 to 1: the belief in the half second around.
    pub trust: f64,
}

/// What is remembered of a frame.
#[derive(Debug, Clone)]
struct Past {
    place: Posture,
    pose: KeptPose,
    seen: Seen,
    /// Log likelihood of the frame under all that was believed, and the belief in nowhere.
    evidence: f64,
    nowhere: f32,
}

/// Follows a performer through rehearsed takes, frame by frame of the 50 Hz grid; looks at the past alone.
#[derive(Debug, Clone)]
pub struct Follower {
    rehearsal: Rehearsal,
    search: Search,
    motions: [Motion; 2],
    viewer: Viewer,
    past: Vec<Past>,
    stretches: Vec<Stretch>,
    /// Belief that what is done is in no take.
    nowhere: f32,
    frame: usize,
    candidates: Vec<usize>,
    performer: Performer,
    fine: Fine,
    scratch: Scratch,
    /// Where the newest frame is: what [`Self::push`] gave, then the best of every other take.
    places: Vec<Place>,
    /// How long nobody has seen who was followed, seconds.
    unseen: Option<f64>,
}

impl Follower {
    /// A follower of these takes: canonical rotations at 50 Hz, of which every second frame is read and kept.
    ///
    /// # Errors
    /// No take, one without a frame, or more than ten hours.
    pub fn new<T: AsRef<[CanonicalPose]>>(takes: impl IntoIterator<Item = T>) -> Result<Self, MemoryError> {
        let rehearsal = Rehearsal::new(takes)?;
        let still = [0.0; 32];
        let past = Past {
            place: still,
            pose: KeptPose::default(),
            seen: Seen {
                place: still,
                velocity: still,
                moving: false,
                scale: [1.0; 2],
                elsewhere: 1.0,
                weight: 1.0,
            },
            evidence: 0.0,
            nowhere: 1.0,
        };
        let performer = Performer::new(&rehearsal);
        Ok(Self {
            search: Search::new(&rehearsal),
            rehearsal,
            motions: [Motion::new(1), Motion::new(2)],
            viewer: Viewer::default(),
            past: vec![past; KEPT],
            stretches: Vec::new(),
            nowhere: 1.0,
            frame: 0,
            candidates: Vec::new(),
            performer,
            fine: Fine::default(),
            scratch: Scratch::default(),
            places: Vec::new(),
            unseen: None,
        })
    }

    /// Every second pose of a take, if there is such a take.
    #[must_use]
    pub fn poses(&self, take: usize) -> Option<Arc<[KeptPose]>> {
        self.rehearsal.poses(take)
    }

    /// The next frame begins a new run.
    pub fn reset(&mut self) {
        self.interrupt();
        self.performer = Performer::new(&self.rehearsal);
        self.unseen = None;
    }

    /// The next frame comes so many seconds after the last: the performer, the same one, has probably gone on. False
    /// after more than a minute, which begins a new run.
    pub fn resume(&mut self, seconds: f64) -> bool {
        if !(0.0..=ANEW).contains(&seconds) {
            self.reset();
            return false;
        }
        // Who is lost again before a frame was seen has been away since the first time.
        let before = if self.frame == 0 { self.unseen } else { Some(0.0) };
        self.unseen = before.map(|before| before + seconds);
        self.interrupt();
        true
    }

    fn interrupt(&mut self) {
        self.search.reset();
        self.viewer = Viewer::default();
        self.frame = 0;
        self.candidates.clear();
        self.fine = Fine::default();
        self.places.clear();
    }

    /// Where the newest frame is: what [`Self::push`] gave of it, then the best place in every other take that is
    /// believed in; takes that show the same movement share the belief in it.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Takes a frame and says where it is, or nothing where it is in no take (as far as is known).
    pub fn push(&mut self, pose: &CanonicalPose) -> Option<Place> {
        let seen = self.see(pose);
        if self.frame == 0 {
            self.begin();
        }
        let evidence = self.advance(&seen);
        let past = &mut self.past[self.frame % KEPT];
        (past.seen, past.evidence, past.nowhere) = (seen, evidence, self.nowhere);
        if self.frame.is_multiple_of(EVERY) && seen.moving {
            self.search.push(&seen.place, &seen.velocity);
            let stretches = &self.stretches;
            self.candidates = self.search.candidates(self.frame, |frame| {
                stretches.iter().any(|s| {
                    s.mass() > FOLLOWED && frame + HALF + MARGIN >= s.start && frame + HALF < s.end() + MARGIN
                })
            });
        } else if let Some(candidate) = self.candidates.pop() {
            let frame = candidate + HALF + self.frame % EVERY;
            if frame < self.rehearsal.frames(self.rehearsal.take_of(candidate)).end {
                self.enter(frame);
            }
        }
        self.learn(&seen);
        self.place();
        let now = self.frame;
        self.frame += 1;
        let Some(believed) = self.places.first_mut() else {
            self.fine.lose();
            return None;
        };
        let last = [0, 1, 2, 3].map(|ago: usize| &self.past[(now - ago.min(now)) % KEPT].place);
        *believed = self.fine.refine(&self.rehearsal, last, now, *believed);
        Some(*believed)
    }

    fn see(&mut self, pose: &CanonicalPose) -> Seen {
        let newest = self.viewer.push_without(&self.performer.turned(), pose);
        let past = &mut self.past[self.frame % KEPT];
        (past.place, past.pose) = (newest, self.viewer.kept());
        let back = |k: usize| &self.past[(self.frame - (2 * HALF - k).min(self.frame)) % KEPT].place;
        let moving = self.frame >= 2 * HALF;
        let mut seen = self.performer.see(middle(back), velocity(back), moving);
        // Who begins with another step than was rehearsed is like another part at first, and has not jumped there.
        seen.weight *= ((self.frame + 1) as f32 / TOP as f32).min(1.0);
        seen
    }

    /// Learns what the performer differs by from what was rehearsed.
    fn learn(&mut self, seen: &Seen) {
        let best = self.stretches.iter().max_by(|a, b| a.mass().total_cmp(&b.mass()));
        let Some(best) = best.filter(|best| seen.moving && best.mass() >= LEARNED) else {
            return;
        };
        let mut half = 0.5 * best.mass();
        let median = best.rows.iter().position(|row| {
            half -= mass(row);
            half <= 0.0
        });
        let median = median.unwrap_or(0);
        let row = &best.rows[median];
        let tempo = row.iter().zip(TEMPI).map(|(w, t)| w * t).sum::<f32>() / mass(row);
        let first = self.rehearsal.frames(best.take).start;
        let then = (best.start + median)
            .saturating_sub((tempo * HALF as f32).round() as usize)
            .max(first);
        let (take, now) = (best.take, &self.past[(self.frame - HALF) % KEPT].pose);
        let pose = self.rehearsal.pose(take, then);
        let (performer, known) = (&mut self.performer, &mut self.scratch.known);
        self.rehearsal
            .seen(take, then..then + 1, known, |[place, velocity]| {
                performer.learn((seen, now), (place, &velocity.map(|v| tempo * v), pose));
            });
    }

    /// Belief before the first frame of a run, or of what goes on after a gap: there, wherever any tempo may have led.
    fn begin(&mut self) {
        let goes_on = self.unseen.map_or(0.0, |gap| (-gap / GOES_ON).exp()) as f32;
        let gone = self
            .unseen
            .map_or(0.0, |gap| gap * RATE * f64::from(TEMPI[TEMPI.len() - 1])) as usize;
        let before = std::mem::take(&mut self.stretches);
        self.nowhere = goes_on * self.nowhere + (1.0 - goes_on) * (1.0 - FROM_THE_TOP);
        for was in before {
            let range = was.start..(was.end() + gone).min(self.rehearsal.frames(was.take).end);
            let each = goes_on * was.mass() / range.len().max(1) as f32;
            self.believe(was.take, range, each);
        }
        let each = (1.0 - goes_on) * FROM_THE_TOP / (TOP * self.rehearsal.takes()) as f32;
        for take in 0..self.rehearsal.takes() {
            let frames = self.rehearsal.frames(take);
            self.believe(take, frames.start..frames.end.min(frames.start + TOP), each);
        }
        self.unseen = None;
        self.merge();
    }

    fn believe(&mut self, take: usize, frames: std::ops::Range<usize>, each: f32) {
        if each > 0.0 && !frames.is_empty() {
            let start = frames.start;
            self.stretches.push(Stretch {
                take,
                start,
                rows: vec![ANY_TEMPO.map(|share| share * each); frames.len()],
            });
        }
    }

    /// Moves all belief on by a frame; the log likelihood of what is seen.
    fn advance(&mut self, seen: &Seen) -> f64 {
        let left: f32 = LEAVE * self.stretches.iter().map(Stretch::mass).sum::<f32>();
        self.nowhere = (self.nowhere + left) * seen.elsewhere.powf(seen.weight);
        for stretch in &mut self.stretches {
            let before = stretch.mass();
            stretch.step(&self.rehearsal, &self.motions[0], seen, &mut self.scratch);
            stretch.scale((stretch.mass() / before).powf(seen.weight - 1.0));
        }
        self.stretches.retain(|s| !s.rows.is_empty());
        let evidence = self.normalise();
        self.merge();
        let most = if self.frame < TOP { AT_FIRST } else { AT_MOST };
        // Masses are positive, so their bits are in their order.
        self.stretches.sort_by_cached_key(|s| Reverse(s.mass().to_bits()));
        self.stretches.truncate(most);
        self.stretches.retain(|s| s.mass() > FAINT);
        self.stretches.sort_by_key(|s| s.start);
        evidence
    }

    /// Tries a place on the last frames, and believes in it as much as it explains them better. The performer may
    /// have come there in any of them.
    fn enter(&mut self, frame: usize) {
        let take = self.rehearsal.take_of(frame - 1);
        let frames = self.rehearsal.frames(take);
        let anywhere = 1.0 / self.rehearsal.all().max(ELSEWHERE) as f32;
        let mut stretch = Stretch {
            take,
            start: frame,
            rows: Vec::new(),
        };
        // The logarithm of the belief in it, against all else that was believed at the time.
        let mut log = f64::NEG_INFINITY;
        for pair in (0..REPLAYED.min(self.frame) / 2).rev() {
            let at = self.frame - 2 * pair;
            // Where it was then: at a tempo of 1.45 to .6, and a little beside.
            let back = 2 * pair + 2;
            let first = frame.saturating_sub(back * 29 / 20 + MARGIN).max(frames.start);
            let end = (frame + MARGIN)
                .saturating_sub(back * 3 / 5)
                .clamp(frames.start + 1, frames.end);
            let was = self.past[(at - 2) % KEPT].nowhere;
            let came = f64::from(2.0 * anywhere * (JUMP * (1.0 - was) + ENTER * was)).ln();
            if stretch.rows.is_empty() || log < came - FORGOTTEN {
                stretch.rows.clear();
                log = came;
            }
            stretch.add(first..end, (came - log).exp() as f32);
            let before = stretch.mass();
            stretch.scale(1.0 / before);
            let Past { seen, evidence, .. } = &self.past[at % KEPT];
            stretch.step(&self.rehearsal, &self.motions[1], seen, &mut self.scratch);
            if stretch.rows.is_empty() {
                return;
            }
            let likely = stretch.mass();
            stretch.scale(1.0 / likely);
            log += f64::from(before.ln() + seen.weight * likely.ln());
            log -= evidence + self.past[(at - 1) % KEPT].evidence;
        }
        let mass = log.min(FORGOTTEN).exp() as f32;
        if mass < NEW || stretch.rows.is_empty() {
            return;
        }
        stretch.scale(mass / stretch.mass());
        // What is followed already is not believed in twice.
        for other in self.stretches.iter().filter(|other| other.take == stretch.take) {
            for i in other.start.max(stretch.start)..other.end().min(stretch.end()) {
                stretch.rows[i - stretch.start] = [0.0; TEMPI.len()];
            }
        }
        self.stretches.push(stretch);
        self.normalise();
        self.merge();
    }

    /// Makes all belief sum to one; the log of what it summed to.
    fn normalise(&mut self) -> f64 {
        let sum = self.nowhere + self.stretches.iter().map(Stretch::mass).sum::<f32>();
        self.nowhere /= sum;
        self.stretches.iter_mut().for_each(|s| s.scale(1.0 / sum));
        f64::from(sum).ln()
    }

    /// Stretches that overlap become one.
    fn merge(&mut self) {
        self.stretches.sort_by_key(|s| s.start);
        self.stretches.dedup_by(|next, stretch| {
            let meet = next.take == stretch.take && next.start < stretch.end();
            if meet {
                stretch.merge(next);
            }
            meet
        });
    }

    /// The half second of every take that is believed in most, the best first.
    fn place(&mut self) {
        let mut found: Vec<(f32, &Stretch, usize)> = Vec::new();
        for stretch in &self.stretches {
            let (mut sum, mut best) = (0.0, (NOWHERE, None));
            for (i, row) in stretch.rows.iter().enumerate() {
                sum += mass(row);
                if let Some(gone) = i.checked_sub(AROUND) {
                    sum -= mass(&stretch.rows[gone]);
                }
                if sum > best.0 {
                    best = (sum, Some((i + 1).saturating_sub(AROUND)));
                }
            }
            if let (trust, Some(first)) = best {
                found.push((trust, stretch, first));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        self.places.clear();
        for (trust, stretch, first) in found {
            if self.places.iter().all(|place| place.take != stretch.take) {
                let begin = self.rehearsal.frames(stretch.take).start;
                self.places.push(within(stretch, first, trust, begin));
            }
        }
    }
}

/// The place in the half second of a stretch that begins with its row `first`, of a take that begins at `begin`.
fn within(stretch: &Stretch, first: usize, trust: f32, begin: usize) -> Place {
    let mut half = 0.5 * trust;
    let median = stretch.rows[first..].iter().position(|row| {
        half -= mass(row);
        half <= 0.0
    });
    let median = first + median.unwrap_or(0);
    let (mut sum, mut place, mut tempo) = (0.0, 0.0, 0.0);
    let end = (median + CORE + 1).min(stretch.rows.len());
    for i in median.saturating_sub(CORE)..end {
        for (w, r) in stretch.rows[i].iter().zip(TEMPI) {
            sum += f64::from(*w);
            place += f64::from(*w) * (stretch.start + i) as f64;
            tempo += f64::from(*w) * f64::from(r);
        }
    }
    Place {
        take: stretch.take,
        seconds: (place / sum - begin as f64) / RATE,
        tempo: tempo / sum,
        trust: f64::from(trust.min(1.0)),
    }
}
