// Package other has an interface with directives for others to embed.
package other

import "context"

// Name is a name.
type Name string

// Constraint is a constraint.
type Constraint interface {
	~string
	String() string
}

// Sealed can be implemented here alone.
type Sealed interface {
	//guard:lock seal:{n}
	Seal(ctx context.Context, n Name) error
	sealed()
}

// Namer has a type parameter.
type Namer[T any] interface {
	//guard:lock namer:{t}
	Name(ctx context.Context, t T) (T, error)
}
