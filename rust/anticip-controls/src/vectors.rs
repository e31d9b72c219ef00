//! Vectors of the eight parameters: of the model at a lead, of the scalars alone, in the performer's range.

/// Sound parameters.
pub const PARAMETER_COUNT: usize = 8;
/// Anticipation scalars.
pub const SCALAR_COUNT: usize = 7;
/// How far ahead a model says the parameters, milliseconds.
pub const HORIZONS_MS: [f64; 5] = [0.0, 40.0, 100.0, 200.0, 400.0];
/// Width of a bin of the events' hazards, milliseconds.
pub const BIN_MS: f64 = 20.0;
/// The place of the loudness among the parameters.
pub const LOUDNESS: usize = 1;
/// The place of the brightness.
pub(crate) const BRIGHTNESS: usize = 2;
/// Where the parameters go when there is nobody to follow: silent, centred, dry.
pub const NEUTRAL: Parameters = [0.5, 0.0, 0.5, 0.0, 0.0, 0.5, 0.5, 0.0];

/// One value a parameter.
pub type Parameters = [f64; PARAMETER_COUNT];
/// The parameters at the horizons.
pub type Forecast = [[f64; HORIZONS_MS.len()]; PARAMETER_COUNT];

/// Clipped to 0..1; what is no number is 0.
pub(crate) fn unit(value: f64) -> f64 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

/// The parameters of this moment.
pub(crate) fn now(forecast: &Forecast) -> Parameters {
    forecast.map(|row| row[0])
}

/// The parameters so many milliseconds ahead, a lead for each: linear between the horizons, clipped to 0..1.
///
/// A lead outside the horizons is taken for the nearest of them.
#[must_use]
pub fn at_lead(forecast: &Forecast, leads_ms: &Parameters) -> Parameters {
    std::array::from_fn(|p| {
        let (row, lead) = (&forecast[p], leads_ms[p].clamp(HORIZONS_MS[0], HORIZONS_MS[4]));
        let k = (0..3).find(|&k| lead <= HORIZONS_MS[k + 1]).unwrap_or(3);
        let (low, high) = (HORIZONS_MS[k], HORIZONS_MS[k + 1]);
        unit(row[k] + (lead - low) / (high - low) * (row[k + 1] - row[k]))
    })
}

/// The parameters from the scalars alone: what plays when there is no model, or it is late.
///
/// A still performer is silent, novelty away from the centre of the recent range is loud, an uncertain course is
/// dense, an unsteady one rough.
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

/// How one parameter is stretched to the range that a performer uses: 0 up to `foot`, .75 at `top`, 1 at 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// The parameter's place.
    pub place: usize,
    /// Where the map rises from 0.
    pub foot: f64,
    /// Where it reaches .75; above `foot` and below 1.
    pub top: f64,
    /// The exponent between the two.
    pub curve: f64,
}

const HIGH: f64 = 0.75;

impl Reach {
    /// The stretched value.
    #[must_use]
    pub fn stretch(&self, value: f64) -> f64 {
        if value <= self.foot {
            0.0
        } else if value < self.top {
            HIGH * ((value - self.foot) / (self.top - self.foot)).powf(self.curve)
        } else {
            HIGH + (1.0 - HIGH) * ((value - self.top) / (1.0 - self.top)).min(1.0)
        }
    }
}
