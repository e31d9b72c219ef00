"""What ``pyanticip bench`` runs; docs say what each figure means."""
