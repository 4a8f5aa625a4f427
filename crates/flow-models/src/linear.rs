//! Small systems of linear equations, by Gauss-Jordan elimination with partial pivoting.

/// Solves a system. Returns `None` if it is singular.
pub fn solve(mut system: Vec<Vec<f64>>, right: Vec<f64>) -> Option<Vec<f64>> {
    for (row, value) in system.iter_mut().zip(right) {
        row.push(value);
    }
    eliminate(&mut system)?;
    system.into_iter().map(|row| row.last().copied()).collect()
}

/// Returns the inverse, or `None` if the matrix is singular.
pub fn invert(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    let with_unit = |(at, row): (usize, &Vec<f64>)| {
        row.iter().copied().chain((0..size).map(|column| f64::from(u8::from(column == at)))).collect()
    };
    let mut system: Vec<Vec<f64>> = matrix.iter().enumerate().map(with_unit).collect();
    eliminate(&mut system)?;
    Some(system.into_iter().map(|row| row[size..].to_vec()).collect())
}

/// Turns the left square part into the unit matrix.
fn eliminate(system: &mut [Vec<f64>]) -> Option<()> {
    for column in 0..system.len() {
        let weight = |row: &usize| system[*row][column].abs();
        let pivot = (column..system.len()).max_by(|a, b| weight(a).total_cmp(&weight(b)))?;
        system.swap(column, pivot);
        let divisor = system[column][column];
        if !divisor.is_finite() || divisor.abs() < 1e-300 {
            return None;
        }
        system[column].iter_mut().for_each(|entry| *entry /= divisor);
        let pivot_row = system[column].clone();
        for row in (0..system.len()).filter(|row| *row != column) {
            let factor = system[row][column];
            system[row].iter_mut().zip(&pivot_row).for_each(|(entry, pivot)| *entry -= factor * pivot);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_with_a_zero_on_the_diagonal_is_solved() {
        // y = 2, x + y = 5.
        let system = vec![vec![0.0, 1.0], vec![1.0, 1.0]];
        assert_eq!(solve(system.clone(), vec![2.0, 5.0]), Some(vec![3.0, 2.0]));
        assert_eq!(invert(&system), Some(vec![vec![-1.0, 1.0], vec![1.0, 0.0]]));
        assert_eq!(solve(vec![vec![1.0, 1.0], vec![1.0, 1.0]], vec![1.0, 2.0]), None);
    }
}
