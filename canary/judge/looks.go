package judge

// looks at the shards, at most. They come at 1/16, 1/8, 1/4, 1/2 and the whole of the
// time between the warm-up and the deadline: the plan says when, not the data, so
// that no run can look until it likes what it sees.
const looks = 5

// due is how many looks at the shards have become due.
func (p Plan) due(elapsed int64) int {
	n := 0
	for j := range looks {
		if elapsed >= int64(p.Warmup)+int64(p.Deadline-p.Warmup)>>(looks-1-j) {
			n++
		}
	}
	return n
}

// spent is the part of Alpha, and of Beta, that so many looks may use up: as much as of
// the time was over. A look that had to be left out leaves its part to the next.
func spent(looked int) float64 {
	if looked == 0 {
		return 0
	}
	return 1 / float64(int(1)<<(looks-min(looked, looks)))
}

// lastLook is what the last look may use up, if none was left out.
const lastLook = 0.5
