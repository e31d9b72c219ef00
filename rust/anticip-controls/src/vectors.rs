//! Vectors of the eight parameters: read from a forecast, mapped from the scalars, stretched to the
//! performer's range.

/// Number of sound parameters.
pub const PARAMETER_COUNT: usize = 8;
/// Number of anticipation scalars.
pub const SCALAR_COUNT: usize = 7;
/// Horizons at which a model forecasts the parameters, in milliseconds.
pub const HORIZONS_MS: [f64; 5] = [0.0, 40.0, 100.0, 200.0, 400.0];
/// Width of a hazard bin, in milliseconds.
pub const BIN_MS: f64 = 20.0;
/// Number of hazard bins of the model.
pub const BIN_COUNT: usize = 25;
/// Index of loudness among the parameters.
pub const LOUDNESS: usize = 1;
/// Index of brightness among the parameters.
pub(crate) const BRIGHTNESS: usize = 2;
/// The parameters when there is no performer: silent and centred.
pub const NEUTRAL: Parameters = [0.5, 0.0, 0.5, 0.0, 0.0, 0.5, 0.5, 0.0];

/// One value per parameter.
pub type Parameters = [f64; PARAMETER_COUNT];
/// Each parameter at each horizon.
pub type Forecast = [[f64; HORIZONS_MS.len()]; PARAMETER_COUNT];

/// Clamps to 0..1; NaN becomes 0.
pub(crate) fn unit(value: f64) -> f64 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

/// The parameters at horizon 0.
pub(crate) fn now(forecast: &Forecast) -> Parameters {
    forecast.map(|row| row[0])
}

/// The parameters at a lead each, linear between the horizons and clamped to 0..1.
///
/// Leads outside the horizons are clamped to them.
#[must_use]
pub fn at_lead(forecast: &Forecast, leads_ms: &Parameters) -> Parameters {
    std::array::from_fn(|p| {
        let (row, lead) = (&forecast[p], leads_ms[p].clamp(HORIZONS_MS[0], HORIZONS_MS[4]));
        let k = (0..3).find(|&k| lead <= HORIZONS_MS[k + 1]).unwrap_or(3);
        let (low, high) = (HORIZONS_MS[k], HORIZONS_MS[k + 1]);
        unit(row[k] + (lead - low) / (high - low) * (row[k + 1] - row[k]))
    })
}

/// The parameters from the scalars alone, used when there is no model output or it is late.
///
/// A still performer is silent, novelty away from the centre of the recent range is loud, an uncertain course
/// is dense, an unsteady one rough.
#[must_use]
pub fn scalar_mapping(scalars: &[f64; SCALAR_COUNT]) -> Parameters {
    let [c, u, t, r, p, n, st] = scalars.map(|x| if x.is_finite() { x } else { 0.0 });
    let reach = 1.0 - r;
    let loud = (n * reach).max(0.0).sqrt();
    [
        c,
        loud,
        0.5 * (reach + loud),
        1.0 - st,
        loud * (0.3 + 0.7 * u),
        r,
        0.5 + 0.5 * t,
        p * loud,
    ]
    .map(unit)
}

/// Stretching map of one parameter: 0 up to `foot`, 0.75 at `top`, 1 at 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// Index of the parameter.
    pub place: usize,
    /// Where the map starts to rise from 0.
    pub foot: f64,
    /// Where it reaches 0.75; above `foot` and below 1.
    pub top: f64,
    /// The exponent between `foot` and `top`.
    pub curve: f64,
}

/// Stretched value at [`Reach::top`], the performer's high values.
pub(crate) const HIGH_TARGET: f64 = 0.75;

impl Reach {
    /// The stretched value.
    #[must_use]
    pub fn stretch(&self, value: f64) -> f64 {
        if value <= self.foot {
            0.0
        } else if value < self.top {
            HIGH_TARGET * ((value - self.foot) / (self.top - self.foot)).powf(self.curve)
        } else {
            HIGH_TARGET + (1.0 - HIGH_TARGET) * ((value - self.top) / (1.0 - self.top)).min(1.0)
        }
    }
}
