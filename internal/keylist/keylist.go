// Package keylist collects the keys of one request.
package keylist

import (
	"errors"
	"slices"
)

// Max is the max number of distinct keys of one request.
const Max = 64

// ErrTooMany says that a request has more than Max distinct keys. Users know it
// as keyfunc.ErrTooManyKeys.
var ErrTooMany = errors.New("keyfunc: more than 64 keys")

// Add returns keys with key, unless keys has it already.
func Add(keys []string, key string) ([]string, error) {
	switch {
	case slices.Contains(keys, key):
		return keys, nil
	case len(keys) == Max:
		return nil, ErrTooMany
	}
	return append(keys, key), nil
}

// Distinct returns each of keys once.
func Distinct(keys []string) (distinct []string, err error) {
	for _, key := range keys {
		if distinct, err = Add(distinct, key); err != nil {
			return nil, err
		}
	}
	return distinct, nil
}
