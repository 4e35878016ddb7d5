package lockmwtest

// IdempotentRows returns the names of the rows of RunIdempotent.
func IdempotentRows() (names []string) {
	for _, row := range idempotentRows {
		names = append(names, row.name)
	}
	return names
}
