"""The α-chunk split: every record once, few classes a client."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.federated.systems import deal_chunks, most_chunks


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    n_clients=st.integers(1, 7),
    chunks=st.integers(1, 5),
    shuffle=st.sampled_from(["classes", "chunks"]),
    seed=st.integers(0, 99),
)
def test_every_record_has_one_client_and_chunks_are_nearly_equal(
    sizes, n_clients, chunks, shuffle, seed
):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    client = deal_chunks(labels, n_clients, chunks, seed, shuffle=shuffle)
    assert client.shape == labels.shape
    held = np.zeros((n_clients, len(sizes)), dtype=int)
    np.add.at(held, (client, labels), 1)  # fails outside 0..k-1
    most = most_chunks(len(sizes), chunks, n_clients)
    assert (held > 0).sum(axis=1).max() <= most
    for own, size in zip(held.T, sizes, strict=True):
        assert own.sum() == size
        if shuffle == "classes" and chunks <= n_clients:  # no two chunks of a class meet
            expected = [len(part) for part in np.array_split(np.arange(size), chunks)]
            assert sorted(own[own > 0]) == sorted(filter(None, expected))
    np.testing.assert_array_equal(
        client, deal_chunks(labels, n_clients, chunks, seed, shuffle=shuffle)
    )


@pytest.mark.parametrize(("c", "alpha", "expected"), [(10, 2, 2), (26, 1, 3)])
def test_the_published_sets_have_the_printed_number_of_classes_a_client(c, alpha, expected):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(c), 50)).astype(str)
    client = deal_chunks(labels, 10, alpha, 0)
    assert most_chunks(c, alpha, 10) == expected
    assert max(len(np.unique(labels[client == i])) for i in range(10)) == expected


def test_records_are_dealt_at_random_and_chunks_may_meet_when_all_are_shuffled():
    labels = np.zeros(2000, dtype=int)
    client = deal_chunks(labels, 2, 2, 0)
    assert abs((client[:1000] == 0).sum() - 500) < 80  # five standard deviations
    pairs = np.repeat(np.arange(2), 2)
    met = [len(set(deal_chunks(pairs, 2, 2, s, shuffle="chunks")[:2])) == 1 for s in range(60)]
    assert 5 < sum(met) < 40  # one dealing in three


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"n_clients": 0}, "n_clients=0"), ({"chunks": 1.5}, "chunks=1.5"), ({"shuffle": "no"}, "no")],
)
def test_wrong_arguments_are_refused_by_name(wrong, words):
    with pytest.raises((TypeError, ValueError), match=words):
        deal_chunks(np.zeros(4), **({"n_clients": 2, "chunks": 1} | wrong))
