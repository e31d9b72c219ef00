//! One performer: model forecasts mixed with what followed similar earlier moments.

use std::hint::black_box;

use anticip_motion::features::RATE;
use anticip_motion::twin::body::Rotations;

use crate::key::{DELAY_0, DELAY_20, DELAY_60, DELAY_160, MEAN_1S, MEAN_4S, Twin, parameters};
use crate::learn::{FeatureExtractor, FrameFeatures, Learner, MAX_TEACHER_DELAY, TaughtFrame, moments_of};
use crate::mixing::{ExpertValues, Mixing, Table};
use crate::nearest::{NEAREST, Near, Search};
use crate::store::{Origin, Store};
use crate::{HORIZONS, MemoryError, PARAMETER_COUNT, Place};

/// Number of model horizons: now, 40, 100, 200 and 400 ms.
pub const MODEL_HORIZONS: usize = 5;

/// The parameters forecast by a model, at its horizons.
pub type ModelRows = [[f32; MODEL_HORIZONS]; PARAMETER_COUNT];

const H: usize = HORIZONS.len();
/// The first mixed horizon of the model; all later ones are mixed too.
const FIRST_MIXED: usize = MODEL_HORIZONS - H;
/// Share of the correction at the first mixed horizon that is applied to each horizon before it; chosen on
/// unseen performers.
const EARLY_SHARE: [f64; FIRST_MIXED] = [0.4, 0.6];
/// Squared distance added to the nearest moment's as the scale on which weights of moments fall.
const DISTANCE_SCALE: f64 = 0.001;

/// What the nearest moments say about a frame.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Recalled {
    /// Weighted mean of the parameters that followed the nearest moments.
    followed: Table,
    /// Weighted mean of the parameters in those moments, from the undelayed twin.
    current: [f32; PARAMETER_COUNT],
}

/// What was rehearsed at a place.
#[derive(Debug, Clone, Copy, Default)]
struct RehearsedPlace {
    followed: [[f64; PARAMETER_COUNT]; H],
    current: [f64; PARAMETER_COUNT],
}

/// The forecast for a frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MixedForecast {
    /// The parameters at the model's horizons, 0..1.
    pub parameters: ModelRows,
    /// Share of it that is forecast, by the model or from memory, rather than held or averaged, 0..1.
    pub trust: Table,
}

/// One performer: the stored moments, and the stream that reads and adds to them.
#[derive(Debug, Clone)]
pub struct Memory {
    store: Store,
    /// Names of the rehearsed takes, by number; takes learned since have the numbers after them.
    names: Vec<String>,
    take: u32,
    learning: bool,
    extractor: FeatureExtractor,
    learner: Learner,
    /// The newest frame, while it has not been learned from.
    unlearned: Option<FrameFeatures>,
    search: Search,
    mixing: Mixing,
    /// The experts' values for the newest frame, without the model's before [`Self::push`] adds them.
    expert_values: [[ExpertValues; H]; PARAMETER_COUNT],
    now: [f64; PARAMETER_COUNT],
    /// `None` while fewer than twelve moments are stored.
    recalled: Option<Recalled>,
    /// Trust in the place of the newest frame, 0..1.
    place_trust: f64,
}

impl Memory {
    /// A performer without moments, with room for `capacity` of them, one for every 40 ms.
    ///
    /// # Errors
    /// If `capacity` is out of range.
    pub fn new(capacity: usize) -> Result<Self, MemoryError> {
        Ok(Self {
            store: Store::new(capacity)?,
            names: Vec::new(),
            take: 0,
            learning: true,
            extractor: FeatureExtractor::default(),
            learner: Learner::default(),
            unlearned: None,
            search: Search::default(),
            mixing: Mixing::new(MAX_TEACHER_DELAY),
            expert_values: Default::default(),
            now: [0.0; PARAMETER_COUNT],
            recalled: None,
            place_trust: 0.0,
        })
    }

    /// The stored moments, including those of the newest frame.
    #[must_use]
    pub fn store(&mut self) -> &Store {
        self.learn();
        &self.store
    }

    /// Names of the rehearsed takes, by number.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether new moments are learned.
    #[must_use]
    pub fn learning(&self) -> bool {
        self.learning
    }

    /// Sets whether moments are learned from here on; stored moments are used either way.
    pub fn set_learning(&mut self, learning: bool) {
        self.learn();
        self.learning = learning;
    }

    /// Adds the next frame and returns its forecast. `model` is the model's output for the frame, `place` the
    /// performer's place in the rehearsed takes, if known (`place.take` is the number of the take).
    pub fn push(
        &mut self,
        pose: &Rotations,
        model: Option<&ModelRows>,
        place: Option<&Place>,
    ) -> MixedForecast {
        self.learn();
        self.mixing.update_weights();
        let features = self.extractor.push(pose);
        self.recalled = features.key.and_then(|key| {
            let nearest = self.search.find(&self.store, &key);
            (nearest.len() == NEAREST).then(|| recall(&self.store, nearest))
        });
        self.now = features.twins[DELAY_20];
        let rehearsed_place = place
            .filter(|place| place.trust.is_finite())
            .and_then(|place| Some((self.rehearsed_at(place)?, place.trust.clamp(0.0, 1.0))));
        self.place_trust = rehearsed_place.map_or(0.0, |(_, trust)| trust);
        self.expert_values =
            self.values_without_model(&features.twins, rehearsed_place.map(|(found, _)| found));
        let forecast = self.imagine(model);
        for (p, rows) in model.into_iter().flatten().enumerate() {
            for (h, row) in rows[FIRST_MIXED..].iter().enumerate() {
                self.expert_values[p][h] =
                    self.mixing
                        .with_model(p, h, &self.expert_values[p][h], Some(f64::from(*row)));
            }
        }
        let mixed = forecast
            .parameters
            .map(|rows| std::array::from_fn(|h| rows[FIRST_MIXED + h]));
        self.mixing.record(&self.expert_values, &mixed);
        self.unlearned = Some(features);
        forecast
    }

    /// Learns from the newest frame. Optional: the next [`Self::push`] does it otherwise, with the same
    /// result; calling it moves the work out of that frame.
    pub fn learn(&mut self) {
        if let Some(features) = self.unlearned.take() {
            let note_taught = note_taught(&mut self.store, &mut self.mixing, self.take);
            self.learner.push(&features, self.learning, note_taught);
        }
    }

    /// The forecast if the model had this output for the newest frame, or for a frame extrapolated from it;
    /// changes no state.
    #[must_use]
    pub fn imagine(&self, model: Option<&ModelRows>) -> MixedForecast {
        let mut forecast = MixedForecast::default();
        for p in 0..PARAMETER_COUNT {
            let rows = model.map(|rows| rows[p].map(f64::from));
            for h in 0..H {
                let model = rows.map(|row| row[FIRST_MIXED + h]);
                let expert_values = self.mixing.with_model(p, h, &self.expert_values[p][h], model);
                let (mixed, trust) = self.mixing.mix(p, h, &expert_values, self.place_trust);
                forecast.parameters[p][FIRST_MIXED + h] = mixed as f32;
                forecast.trust[p][h] = trust as f32;
            }
            // Without a model the current parameters take its place.
            let start = rows.unwrap_or([self.now[p]; MODEL_HORIZONS]);
            let correction = f64::from(forecast.parameters[p][FIRST_MIXED]) - start[FIRST_MIXED];
            for (h, share) in EARLY_SHARE.into_iter().enumerate() {
                forecast.parameters[p][h] = (start[h] + share * correction).clamp(0.0, 1.0) as f32;
            }
        }
        forecast
    }

    /// Runs the code of [`Self::push`] on scratch states and discards the result, so that the next frame
    /// finds data and code in the caches. Returns what [`Self::imagine`] returns.
    #[must_use]
    pub fn prewarm(&self, pose: &Rotations, model: Option<&ModelRows>) -> MixedForecast {
        if let Some(key) = self.extractor.clone().push(pose).key {
            black_box(self.search.clone().find(&self.store, &key));
        }
        self.imagine(model)
    }

    /// What was rehearsed at a place, and what followed there at the current tempo.
    fn rehearsed_at(&self, place: &Place) -> Option<RehearsedPlace> {
        let take = u32::try_from(place.take).ok()?;
        let (frame, tempo) = (place.seconds * RATE, place.tempo.clamp(0.0, 2.0));
        let mut rehearsed = RehearsedPlace {
            current: self.store.parameters(take, frame)?,
            ..RehearsedPlace::default()
        };
        for (followed, ahead) in rehearsed.followed.iter_mut().zip(HORIZONS) {
            *followed = self.store.parameters(take, frame + tempo * ahead as f64)?;
        }
        Some(rehearsed)
    }

    /// The values of all experts but the model.
    fn values_without_model(
        &self,
        twins: &Twin,
        rehearsed: Option<RehearsedPlace>,
    ) -> [[ExpertValues; H]; PARAMETER_COUNT] {
        std::array::from_fn(|p| {
            std::array::from_fn(|h| {
                let followed = self.recalled.map(|recalled| f64::from(recalled.followed[p][h]));
                let change = self
                    .recalled
                    .map(|recalled| f64::from(recalled.followed[p][h] - recalled.current[p]));
                let now = twins[DELAY_0][p];
                [
                    None,
                    None,
                    followed,
                    change.map(|change| (now + change).clamp(0.0, 1.0)),
                    rehearsed.map(|place| place.followed[h][p]),
                    rehearsed.map(|place| (now + place.followed[h][p] - place.current[p]).clamp(0.0, 1.0)),
                    Some(twins[DELAY_20][p]),
                    Some(twins[DELAY_60][p]),
                    Some(twins[DELAY_160][p]),
                    Some(twins[MEAN_1S][p]),
                    Some(twins[MEAN_4S][p]),
                    Some(0.5 * (twins[DELAY_20][p] + twins[MEAN_4S][p])),
                ]
            })
        })
    }

    /// Ends the take; the next frame starts another. Stored moments and the learned weights of the experts
    /// stay.
    pub fn reset(&mut self) {
        self.learn();
        self.learner
            .finish(note_taught(&mut self.store, &mut self.mixing, self.take));
        self.take += 1;
        self.restart();
    }

    fn restart(&mut self) {
        self.extractor.reset();
        self.search.reset();
        self.mixing.restart();
        self.expert_values = Default::default();
        self.recalled = None;
        self.place_trust = 0.0;
    }

    /// Stores a whole take permanently, under a name. Does not affect the stream.
    ///
    /// # Errors
    /// If there is no room, or if moments of the stream have been learned, which would no longer be the
    /// newest.
    pub fn rehearse(&mut self, name: &str, take: &[Rotations]) -> Result<(), MemoryError> {
        self.learn();
        if self.store.len() > self.store.rehearsed() {
            return Err(MemoryError::Played);
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.store
            .check_room(self.store.rehearsed() + moments_of(take.len()))?;
        let (mut extractor, mut learner) = (FeatureExtractor::default(), Learner::default());
        let store = &mut self.store;
        let mut store_moment = |taught: TaughtFrame| {
            if let Some((frame, key, followed)) = taught.moment {
                store.learn(&key, &followed, origin(number, frame));
            }
        };
        for pose in take {
            learner.push(&extractor.push(pose), true, &mut store_moment);
        }
        learner.finish(&mut store_moment);
        self.store.keep_all();
        self.names.push(name.to_owned());
        self.take = self.take.max(number + 1);
        Ok(())
    }

    /// Replaces all moments by rehearsed ones; takes are indices into `names`.
    ///
    /// # Errors
    /// As [`Store::restore`], or if a take has no name.
    pub fn restore(
        &mut self,
        names: Vec<String>,
        keys: &[i16],
        followed: &[u16],
        origins: &[Origin],
    ) -> Result<(), MemoryError> {
        if let Some(origin) = origins.iter().find(|origin| origin.take as usize >= names.len()) {
            return Err(MemoryError::Option {
                option: "takes",
                expected: "numbers of the names",
                given: origin.take.to_string(),
            });
        }
        self.learn();
        self.store.restore(keys, followed, origins)?;
        self.learner.drop_pending();
        self.take = self.take.max(u32::try_from(names.len()).unwrap_or(u32::MAX));
        self.names = names;
        self.search.reset();
        Ok(())
    }

    /// Forgets the moments learned from the stream, and with `rehearsed` those rehearsed too.
    pub fn clear(&mut self, rehearsed: bool) {
        self.learn();
        self.learner.drop_pending();
        self.store.clear(rehearsed);
        if rehearsed {
            self.names.clear();
        }
        self.search.reset();
        self.recalled = None;
    }
}

/// A function for each frame that the teacher has finished: scores the experts and stores the moment.
fn note_taught(store: &mut Store, mixing: &mut Mixing, take: u32) -> impl FnMut(TaughtFrame) {
    move |frame| {
        mixing.score(frame.frame, &frame.parameters);
        if let Some((moment_frame, key, followed)) = frame.moment {
            store.learn(&key, &followed, origin(take, moment_frame));
        }
    }
}

fn origin(take: u32, frame: usize) -> Origin {
    Origin {
        take,
        frame: u32::try_from(frame).unwrap_or(u32::MAX),
    }
}

/// Weighted means over the nearest moments; nearer ones weigh more.
fn recall(store: &Store, near: &[Near]) -> Recalled {
    let nearest = f64::from(near[0].distance);
    let weigh = |near: &Near| (-f64::from(near.distance) / (nearest + DISTANCE_SCALE)).exp();
    let total: f64 = near.iter().map(weigh).sum();
    let (mut followed, mut current) = ([[0.0; PARAMETER_COUNT]; H], [0.0; PARAMETER_COUNT]);
    for moment in near {
        let weight = weigh(moment) / total;
        let rows = store.followed(moment.slot).as_chunks::<PARAMETER_COUNT>().0;
        for (h, row) in rows.iter().enumerate() {
            for (p, &value) in row.iter().enumerate() {
                followed[h][p] += weight * (f64::from(value) / f64::from(u16::MAX));
            }
        }
        for (sum, value) in current.iter_mut().zip(parameters(&store.key(moment.slot))) {
            *sum += weight * f64::from(value);
        }
    }
    Recalled {
        followed: std::array::from_fn(|p| std::array::from_fn(|h| followed[h][p] as f32)),
        current: current.map(|value| value as f32),
    }
}
