# `make train` and `make test` need python3 and make only: each sets itself up
# in .venv first.

PYTHON = python3
DATASET = sample
STEPS = 600
DATA_DIR = data
TRAIN_DIR = runs/$(DATASET)
BIN = .venv/bin
# Ten shapes are so much easier than photographs that at the tutorial's rate of
# 0.1 the loss jumps in some runs, and may not come back.
LEARNING_RATE = $(if $(filter sample,$(DATASET)),0.05,0.1)

.PHONY: train test test-all lint clean

train: .venv/ready
	$(BIN)/python scripts/train.py --dataset='$(DATASET)' \
	  --data_dir='$(DATA_DIR)' --train_dir='$(TRAIN_DIR)' \
	  --max_steps=$(STEPS) --learning_rate=$(LEARNING_RATE) --seed=1
	$(BIN)/python scripts/eval.py --run_once --data_dir='$(DATA_DIR)' \
	  --checkpoint_dir='$(TRAIN_DIR)' --eval_dir='$(TRAIN_DIR)/eval'
	@echo "Look at it:  $(BIN)/tensorboard --logdir '$(TRAIN_DIR)'"

test: .venv/ready
	$(BIN)/python -m pytest -q -m 'not process and not browser'

test-all: .venv/ready
	$(BIN)/python -m pytest -q

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

clean:
	rm -rf .venv build cifar10.egg-info .pytest_cache .ruff_cache

# The stamp is written last, so a set-up that was cut off is done again.
.venv/ready: requirements.txt setup.py
	@$(PYTHON) -m venv --clear .venv || \
	  { echo "no .venv: install Python's venv module (Debian, Ubuntu: apt install python3-venv)"; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@
