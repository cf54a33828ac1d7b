"""Why a figure of ours differs from the paper's, in a sentence or two a target."""

_USERS = "943 users instead of some 75,000: noise falls with the root of users"
_ADAM = "Twelve rounds of Adam (SGD takes hundreds), the latest item held out"
_LATEST = f"{_ADAM}; of a random one FedRec's HR@20 is .180"
_UNREACHED = (
    f"{_ADAM}, as in the paper's reference for leave-one-out (He et al. 2016). FedRec itself "
    "reaches .062 after 48 rounds, .065 with 1 negative a positive instead of 4, .062 after 60 "
    "rounds of 5% of the users; of a random item held out .180. None of these is the printed .10, "
    "and the paper says no more"
)
_FIGURES = "The paper has these errors in figures only, for ML-10M and LibimSeTi"

NOTES: dict[str, str] = {
    "bpr-mf": "The paper says neither flip, epochs nor what its grid chose. Raw bits reach .600.",
    "dp-privrec": (
        "Cut to 20 rounds. As printed, noise of 4.87 falls on weights of 0.06 to 0.35: nothing can "
        "be learnt (with z = 0.001 it is .167). The paper tells of a loss within 10%."
    ),
    "dp-sgd-mf": f"{_FIGURES}.",
    "dp-sgld": f"{_FIGURES}; at epsilon 1 the noise is 55 times the gradient's bound.",
    "dplcf-ap": f"{_USERS}; on all of ML-1M, a random interaction held out, it reaches .630.",
    "dplcf-sp": f"{_USERS}; .564 on all of ML-1M, a random interaction held out.",
    "f-dpmf": "The paper prints no budget; ours is epsilon 10.",
    "f-gerai": "The paper prints no budget; ours are epsilon 10 and 1 a feature.",
    "f-gerai-nl": "The paper prints no budget; ours is epsilon 10.",
    "fcf": "MF-NP's figures, for the paper trains no FCF. .598 on ML-1M cut to 60 interactions.",
    "fcf-meta": (
        "ML-1M, all ratings: .080, .119, .180 and .227, Table 1's but at 5 and 10. On ML-100K it "
        "beats PrivRec, with embeddings of items or without: the reverse of Table 1."
    ),
    "fedlightgcn": f"{_LATEST}.",
    "fedlightgcn-apm": f"{_LATEST}.",
    "fedlightgcn-ldp": f"{_LATEST}.",
    "fedmf": f"{_LATEST}.",
    "fedncf": f"{_LATEST}.",
    "fedncf-apm": f"{_LATEST}.",
    "fedncf-ldp": f"{_LATEST}.",
    "fednews": f"{_LATEST}.",
    "fedrec": f"{_LATEST}.",
    "fedrec-apm": f"{_UNREACHED}.",
    "fedrec-gn": f"{_LATEST}.",
    "fixrec-max": f"{_LATEST}.",
    "fixrec-min": f"{_UNREACHED}.",
    "fmf-hfl": "100 rounds of 10 steps are 10 epochs only.",
    "fmf-ldp": f"{_USERS}; Figure 4 has .116 for 1,000 users and items.",
    "fmf-lfl": "10 rounds; 100 give 0.916.",
    "fmf-vfl": "1,000 steps of a hundredth of the users are 10 epochs only.",
    "fofl-self": "Few rounds, rates of ours (the paper prints none), 943 users.",
    "gd-dr": f"{_FIGURES}: no better than fitting user embeddings alone, as here (1.39).",
    "gmf": "The paper says neither flip, epochs nor what its grid chose. Raw bits reach .604.",
    "hfl-local-sgd": f"{_FIGURES}: worse than hfl-sgdmf, as here.",
    "hfl-sgdmf": f"{_FIGURES}: better than local training (1.07 here) and synSGD, as here.",
    "hfl-synsgd": f"{_FIGURES}: worse than hfl-sgdmf, as here.",
    "lcf-ap": f"{_USERS}.",
    "lcf-sp": f"{_USERS}.",
    "lcf-ub": "No noise: the gap is the data's (.779 on ML-1M).",
    "lfl-ldp": f"{_FIGURES}: no better than lfl-pretrained, as here.",
    "lfl-sgdmf": f"{_FIGURES}; at a claimed epsilon of 1 there is little signal in 943 users.",
    "lfl-pretrained": f"{_FIGURES}: better than gd-dr, as here.",
    "local-only": f"{_FIGURES}: worse than vfl-sgdmf, as here.",
    "mf-np": (
        "It is the data: .586 to .606 on ML-1M cut to 60 interactions, whatever alpha from 0.25 to "
        "64. The paper has twenty times as many users."
    ),
    "nn-self": "Features only, as the text has it. MAML learns once a round; rates of ours.",
    "obj-pertb": f"{_FIGURES}: poor, as here.",
    "privrec": (
        "Features only, as in the text: Table 1 needs more, see the next rows. Rates and layer "
        "sizes are not printed."
    ),
    "privrec-cen": "Algorithm 1 run in one place ends in the same model.",
    "vfl-sgdmf": f"{_FIGURES}; without noise 0.976. At a claimed epsilon of 1, 943 users are few.",
}
