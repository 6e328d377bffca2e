// SPDX-License-Identifier: Apache-2.0

// Package plural writes how many there are of something, for a sentence: "1 shard", "2 shards".
package plural

import "fmt"

type number interface{ int | int32 | int64 | float64 }

// Of writes the number and what there is of it. A number with a fraction is rounded.
func Of[N number](n N, one, many string) string {
	return digits(n) + " " + Word(n, one, many)
}

// Word is the word that goes with the number, if the number itself is elsewhere in the sentence.
func Word[N number](n N, one, many string) string {
	if digits(n) == "1" {
		return one
	}
	return many
}

func digits[N number](n N) string { return fmt.Sprintf("%.0f", float64(n)) }
