//! Plots as SVG.

use plotters::prelude::*;

/// Size of a plot, in units of its own.
const SIZE: (u32, u32) = (520, 220);
/// Colours that can be read on light and on dark paper.
const CURVE: RGBColor = RGBColor(64, 132, 214);
const AXIS: RGBColor = RGBColor(128, 128, 128);
/// Points of a curve, at most: more can't be seen.
const MAX_POINTS: usize = 800;

/// A curve of samples in their order, each divided by `unit`; none of fewer than three.
pub(super) fn line(samples: &[u64], x: &str, y: &str, unit: f64) -> Option<String> {
    if samples.len() < 3 || samples.iter().all(|sample| *sample == 0) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a plot")]
    let value = |sample: u64| sample as f64 / unit;
    let step = samples.len().div_ceil(MAX_POINTS);
    // The highest of each stretch: what is looked for is what sticks out.
    let stretches = samples.chunks(step).map(|chunk| chunk.iter().copied().max().unwrap_or(0));
    let points: Vec<(usize, f64)> = stretches
        .enumerate()
        .map(|(index, sample)| (index * step, value(sample)))
        .collect();
    let top = points.iter().map(|(_, y)| *y).fold(0.0, f64::max) * 1.1;
    draw(&points, samples.len(), top, x, y).ok()
}

fn draw(
    points: &[(usize, f64)],
    end: usize,
    top: f64,
    x: &str,
    y: &str,
) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(32)
            .y_label_area_size(56)
            .build_cartesian_2d(0..end, 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(6)
            .y_labels(5)
            .axis_style(AXIS)
            .bold_line_style(AXIS.mix(0.3))
            .light_line_style(TRANSPARENT)
            .x_desc(x)
            .y_desc(y)
            .draw()?;
        chart.draw_series(LineSeries::new(points.iter().copied(), &CURVE))?;
        area.present()?;
    }
    // Without the size in pixels it fills its figure.
    let fixed = format!("width=\"{}\" height=\"{}\" ", SIZE.0, SIZE.1);
    Ok(svg.replacen(&fixed, "", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_one_svg_and_nothing_is_no_curve() {
        let svg = line(&[1000, 2000, 1500, 90_000], "cycle", "µs", 1e3).expect("four samples");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(svg.contains("viewBox") && !svg.contains("width=\"520\""));
        for empty in [&[][..], &[1, 2], &[0; 50]] {
            assert_eq!(line(empty, "x", "y", 1.0), None);
        }
        assert!(line(&vec![7; 1_000_000], "x", "y", 1.0).is_some_and(|svg| svg.len() < 100_000));
    }
}
