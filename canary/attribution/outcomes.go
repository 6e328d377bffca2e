package attribution

// Handled is what was finished, by outcome: where it was handled if the Revision is
// stateful, else where it entered.
func (t *Tally) Handled(stateful bool) map[string]float64 {
	return handledBy(Revision{Stateful: stateful}, t)
}
