"""What `pyanticip bench` measures of the live path; docs say what each figure means."""
